"""Sessions: a model's tool uses become requests, and their results go back to the model, one for each.

A tool that the server has runs at once, or at its workers; one that the session brought waits for whoever works on the
session's requests. What cannot be run is a result too: the model is told why.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from ..catalogue import Catalogue
from ..model.call import CallTool
from ..model.caller import Caller
from ..model.channel import QuietChannel
from ..model.errors import InvalidInput, LimitReached, PathNotFound, Problem, ToolError, ToolNotFound, ToolyardError
from ..model.judge import ended_by
from ..model.lifecycle import Move
from ..model.record import CallKey, CallRecord, NewCall
from ..model.session import Event, NewSession, RequestEvent, Session, SessionStanding, SessionTool, ToolUse
from ..model.tool import Tool
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import Begun, StoreDown
from ..trust.limits.meters import CountedCall
from ..trust.limits.quotas import Quotas
from ..trust.sealing.fingerprints import Fingerprints, Prints
from .durable import DurableCalls, PreparedCall
from .engine import Engine
from .plans import Timeouts
from .wait import Wait, holding

LOOK_AGAIN_S = 1.0
PAGE_BYTES = 4 * 2**20
"""Of results that are read at once."""
WIRE = "lifecycle"
_encode = msgspec.json.Encoder().encode


class Use(Struct):
    """A model's tool use, as it will be recorded, and what is to be done about it then."""

    new: NewCall
    work: PreparedCall | None = None
    """Where the server runs it."""
    counted: CountedCall | None = None
    """Where it does not."""

    def uncount(self) -> None:
        """Takes it out of the limits that it counted in: it is not new."""
        if self.work is not None:
            self.work.uncount()
        if self.counted is not None:
            self.counted.take_back()


class TurnResults:
    """The results of one turn, some at a time: together they may be a gigabyte, and nobody else's writes should wait
    while that is read."""

    def __init__(self, store: Store, session: str, turn: int, is_shown: Callable[[CallRecord], bool]) -> None:
        """`is_shown`: whether one is there for whoever asks."""
        self._store, self._session, self._turn, self._is_shown = store, session, turn, is_shown
        self._last = 0
        self.is_over = False

    async def next(self) -> list[CallRecord]:
        """The next of them, in order."""
        page = await self._store.session_requests(self._session, self._turn, self._last, PAGE_BYTES)
        # Both are noted now: the page is its reader's, who may empty it.
        self.is_over = sum(call.size for call in page) < PAGE_BYTES
        if page:
            self._last = page[-1].seq
        return [call for call in page if self._is_shown(call)]


class Sessions:
    """What callers do with their sessions: open them, put tool uses in, and wait for the results."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        engine: Engine,
        recorded: DurableCalls,
        fingerprints: Fingerprints,
        limits: Timeouts,
        quotas: Quotas,
    ) -> None:
        self._quotas = quotas
        self._store, self._catalogue, self._engine, self._recorded = store, catalogue, engine, recorded
        self._fingerprints, self._limits = fingerprints, limits

    async def open(self, caller: Caller, id: str, new: NewSession) -> Session:
        """Raises InvalidInput for a tool that cannot be served, or for too many of them, and LimitReached."""
        _refuse_many("tools", len(new.tools), self._quotas.most("session_tools"), "a session")
        problems: list[Problem] = []
        for index, tool in enumerate(new.tools):
            problems += await self._problems(index, tool, caller)
        if problems:
            raise InvalidInput(tuple(problems))
        await self._quotas.open("sessions", caller)
        session = Session(id, caller.tenant, caller.subject, list(new.tools), new.metadata)
        await self._store.create_session(session)
        return session

    async def find(self, caller: Caller, id: str) -> Session:
        session = await self._store.session(caller.tenant, caller.subject, id)
        if session is None:
            raise PathNotFound("There is no such session")
        return session

    async def standing(self, caller: Caller, id: str) -> SessionStanding:
        standing = await self._store.session_standing(caller.tenant, caller.subject, id)
        if standing is None:
            raise PathNotFound("There is no such session")
        return standing

    async def metadata(self, id: str) -> bytes:
        return await self._store.session_metadata(id)

    async def requests(self, id: str) -> list[RequestEvent]:
        return await self._store.request_standings(id)

    async def take(
        self, caller: Caller, id: str, uses: Sequence[ToolUse], base_url: Callable[[], str]
    ) -> list[CallRecord]:
        """Records a message's tool uses, all or none, and starts what the server itself runs. Raises LimitReached for
        all of them where one that is new is too many."""
        _refuse_many("tool uses", len(uses), self._quotas.most("tool_uses"), "a message")
        session = await self.find(caller, id)
        planned: list[Use] = []
        try:
            for use in uses:
                planned.append(await self._admitted(session, caller, use, base_url))
            await self._room(planned, caller)
            begun = await self._store.add_turn(id, [use.new for use in planned]) if planned else []
        except BaseException:
            for each in planned:
                each.uncount()
            raise
        for each, found in zip(planned, begun, strict=True):
            self._go_on(each, found)
        numbers = [found.known.seq if found.known else found.seq for found in begun]
        rows = await asyncio.gather(*map(self._store.glance, numbers))  # together: else each waits its turn
        return [row for row in rows if row is not None]

    async def results(self, caller: Caller, id: str, wait: Wait) -> "TurnResults | None":
        """Those of the newest turn; None while one of them is missing."""
        turn = 0

        async def came() -> bool:
            nonlocal turn
            session = await self.standing(caller, id)
            turn = session.turn
            return not session.open

        has_ended = await holding(self._store, ((Topic.SESSION, id),), wait, came, LOOK_AGAIN_S)
        own = self._engine.own_calls
        return TurnResults(self._store, id, turn, lambda call: own.shows(call, caller)) if has_ended else None

    async def events(self, id: str, after: int, limit: int, wait_s: float) -> list[Event]:
        """What happened after that, or nothing within that time. Who follows a session stays: its stream is ended, and
        would otherwise ask again and again."""
        events: list[Event] = []

        async def came() -> bool:
            nonlocal events
            events = await self._store.events(id, after, limit)
            return bool(events)

        wait = Wait(wait_s, QuietChannel(), stays=True)
        await holding(self._store, ((Topic.SESSION, id),), wait, came, LOOK_AGAIN_S)
        return events

    async def _room(self, planned: Sequence[Use], caller: Caller) -> None:
        """For those that will wait for somebody and are new. Raises LimitReached."""
        waiting = [use for use in planned if use.new.ending is None and use.new.waits]
        if not waiting:
            return
        try:
            await self._quotas.room("waiting_calls", caller, len(waiting))
        except LimitReached:
            if new := [use for use in waiting if await self._store.find(use.new.key) is None]:
                await self._quotas.room("waiting_calls", caller, len(new))

    async def _problems(self, index: int, tool: SessionTool, caller: Caller) -> list[Problem]:
        path = f"tools[{index}]"
        if self._catalogue.named(tool.name, caller.view) is not None:
            return [Problem(f"{path}.name", f"{tool.name} is a tool of the server; choose another name")]
        problems = []
        for member, schema in (("input_schema", tool.input_schema), ("output_schema", tool.output_schema)):
            try:
                await self._engine.plans.sandbox.prove(schema or {}, (caller.tenant, caller.subject))
            except ValueError as error:
                problems.append(Problem(f"{path}.{member}", f"Cannot be checked: {error}"))
        return problems

    async def _admitted(self, session: Session, caller: Caller, use: ToolUse, base_url: Callable[[], str]) -> Use:
        """Raises LimitReached, but not for what was taken before."""
        try:
            return await self._planned(session, caller, use, base_url)
        except LimitReached:
            if await self._store.find(CallKey(caller.tenant, caller.subject, session.id, use.id)) is None:
                raise
            return self._keyed(Use(self._new(session, use)), session, caller, use, self._prints(use))

    async def _planned(self, session: Session, caller: Caller, use: ToolUse, base_url: Callable[[], str]) -> Use:
        new, prints = self._new(session, use), self._prints(use)  # before the author's code has the input
        try:
            if use.problem is not None:
                raise ToolError(use.problem)
            planned = await self._accepted(session, caller, use, base_url)
        except (LimitReached, StoreDown):
            raise
        except ToolyardError as refused:
            planned = Use(new)
            planned.new.ending = ended_by(Move.REJECT, _why(refused), "none")
        if planned.work is None:
            planned.counted = self._engine.count_use(use.name, caller)
        return self._keyed(planned, session, caller, use, prints)

    def _keyed(self, planned: Use, session: Session, caller: Caller, use: ToolUse, prints: tuple[bytes, ...]) -> Use:
        planned.new.key = CallKey(caller.tenant, caller.subject, session.id, use.id)
        planned.new.session, planned.new.fingerprint, planned.new.keyed = session.id, prints[0], True
        planned.new.prints = prints
        return planned

    async def _accepted(self, session: Session, caller: Caller, use: ToolUse, base_url: Callable[[], str]) -> Use:
        for tool in session.tools:
            if tool.name == use.name:
                whose = (caller.tenant, caller.subject)
                if problems := await self._engine.plans.sandbox.check(tool.input_schema, use.input, whose):
                    raise InvalidInput(problems)
                return Use(self._new(session, use))
        hosted = self._hosted(use.name, caller)
        if self._engine.plans.looks_first(hosted) and await self._is_known(session, caller, use):
            return Use(self._new(session, use))
        command = CallTool(hosted.id, use.input, use.id, wire=WIRE, family=session.id)
        work = await self._engine.prepare(hosted, command, caller, QuietChannel(), base_url, may_wait=True)
        work.stops_when_gone, work.new.tool = False, use.name
        return Use(work.new, work)

    async def _is_known(self, session: Session, caller: Caller, use: ToolUse) -> bool:
        """Whether it was taken before and needs nothing more: nothing of the author's runs for it again."""
        begun = await self._store.find(CallKey(caller.tenant, caller.subject, session.id, use.id))
        if begun is None or begun.known is None or self._recorded.is_nobodys(begun.known):
            return False
        return begun.known.fingerprint in self._prints(use)

    def _prints(self, use: ToolUse) -> Prints:
        return self._fingerprints.all_of(use.name, None, use.input if use.raw is None else {"": use.raw})

    def _hosted(self, name: str, caller: Caller) -> Tool:
        named = self._catalogue.named(name, caller.view)
        return self._engine.resolve(name if named is None else named.id, caller)

    def _new(self, session: Session, use: ToolUse) -> NewCall:
        """A request that waits for a caller."""
        key = CallKey(session.tenant, session.subject, session.id, use.id)
        return NewCall(
            key, True, WIRE, use.name, use.name, _encode(use.input),
            on_lost="rerun", queue="session", queue_s=self._limits.claim_s, total_s=self._limits.total_s,
        )  # fmt: skip

    def _go_on(self, use: Use, begun: Begun) -> None:
        """Starts what is new, and what was recorded while the store seemed to fail. A use of the session's own tool is
        not started: whoever works on the session's requests comes for it."""
        if use.work is None:
            if not begun.seq:
                use.uncount()
            return
        known = begun.known
        if use.new.waiting_for is not None:
            if begun.seq:
                use.work.stop_counting()
            else:
                use.uncount()
            return
        if begun.seq:
            self._recorded.go_on(begun.seq, 1, use.work)
            return
        use.uncount()
        if known is not None and self._recorded.is_nobodys(known):
            self._recorded.go_on(known.seq, known.attempt, use.work)


def _refuse_many(what: str, there: int, most: int, where: str) -> None:
    """Raises InvalidInput."""
    if there > most:
        raise InvalidInput((Problem(what, f"There are {there}, and {where} has at most {most}"),))


def _why(refused: ToolyardError) -> str:
    """What a model can act on."""
    if isinstance(refused, InvalidInput):
        problems = "; ".join(f"{problem.path}: {problem.sentence}" for problem in refused.problems)
        return f"{refused.message}: {problems}"
    if isinstance(refused, ToolNotFound):
        return refused.message
    return str(refused)
