"""Calls that wait for a user's account to be connected: they go on as soon as it is, on whichever node that is seen.

Who connects an account, and who makes a call that waits for one, gives a hint of it. Hints between nodes can be lost,
so there is a look now and then. Where nothing waits and no other node can make anything wait, there is none.

Calls that waited, for a person or for a worker, and lack something when they are about to begin: the account was
disconnected meanwhile, the secret removed, or the provider gives no token now. They never run with less than they need.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from ..catalogue import Catalogue
from ..model.call import Outcome
from ..model.caller import Caller
from ..model.channel import Question, QuietChannel
from ..model.errors import Challenge, MissingRequirements, ToolError, ToolyardError, Unavailable
from ..model.judge import ended_by
from ..model.lifecycle import Move, State, WaitingFor
from ..model.record import CallRecord, Ending, ending_of
from ..model.sealed import KIND
from ..model.writes import Decision, WaitForAccount
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import Filter, StoreDown
from ..trust.requirements.requirements import Requirer, in_words
from ..trust.sealing.ring import BrokenSeal, KeyRing
from .approvals import decision_of
from .durable import PreparedCall
from .engine import Engine
from .rebuild import UNREADABLE, caller_of, command_of, context_of

AT_ONCE = 100
_log = logging.getLogger("toolyard.ledger")
LOOK_AGAIN_S = 5.0
"""While something waits: a provider that was away may be there again."""
LOOK_SELDOM_S = 30.0
"""Whether another node has made something wait."""
TOGETHER_S = 0.05
"""What comes at once is looked at once."""


class AccountWaits:
    """Lets calls go on as soon as the account that they wait for is there."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        engine: Engine,
        ring: KeyRing,
        claim_s: float,
        wait_s: float,
        base_url: Callable[[], str],
    ) -> None:
        """`claim_s`: how long a worker then has to claim a call of its tool; `wait_s`: how long a call waits for a
        person's yes; `base_url`: this server's address, for people."""
        self._store, self._catalogue, self._engine, self._ring = store, catalogue, engine, ring
        self._claim_s, self._wait_s, self._base_url = claim_s, wait_s, base_url

    async def follow(self) -> None:
        """Looks whenever there may be something to see. Until cancelled."""
        hints, seldom_s = self._store.hints, LOOK_SELDOM_S if self._store.shared else None
        with hints.waiting(Topic.WAITING, WaitingFor.AUTHORIZATION) as bell, hints.waiting(Topic.KEPT, KIND, bell):
            while True:
                try:
                    pause_s = LOOK_AGAIN_S if await self.look() else seldom_s
                except StoreDown:
                    pause_s = LOOK_AGAIN_S
                if await bell.wait(pause_s):
                    await asyncio.sleep(TOGETHER_S)

    async def look(self) -> bool:
        """Once, at all of them. Whether there are any."""
        last: int | None = None
        while True:
            wanted = Filter(None, state=State.PENDING, waiting_for=WaitingFor.AUTHORIZATION, before=last, limit=AT_ONCE)
            found = await self._store.listed(wanted)
            for listed in found:
                call = listed if not listed.is_cut else await self._store.row(listed.seq)
                if call is not None and call.waiting_for == WaitingFor.AUTHORIZATION:
                    await self._let_one_go(call)
            if len(found) < AT_ONCE:
                return bool(found) or last is not None
            last = found[-1].seq

    async def _let_one_go(self, call: CallRecord) -> None:
        """One that cannot be looked at, whatever is wrong with it, keeps no other waiting. It ends in its time."""
        try:
            await self._let_go(call)
        except StoreDown:
            raise
        except Exception:
            _log.exception("%s (call %s) cannot be looked at while it waits", call.reference, call.key.call_id)

    async def _let_go(self, call: CallRecord) -> None:
        try:
            work = await self._ready(call)
        except StoreDown:
            raise
        except MissingRequirements as error:
            if (ending := ending_for(call, error)) is not None:
                await self._store.release_wait(Decision(call.seq, WaitingFor.AUTHORIZATION, ending))
            return
        except (ToolyardError, BrokenSeal, *UNREADABLE):
            return  # it still waits, and ends when it has waited too long
        work.uncount()  # it counts once it runs
        then = work.new.waiting_for
        if then == WaitingFor.APPROVAL and await decision_of(self._store, call) is not None:
            then = None  # a person said yes before the account was lost
        queue_s = self._claim_s if then is None and call.queue == "worker" else self._wait_s
        await self._store.release_wait(Decision(call.seq, WaitingFor.AUTHORIZATION, queue_s=queue_s, then=then))

    async def _ready(self, call: CallRecord) -> PreparedCall:
        """Raises MissingRequirements while it is not."""
        tool = self._catalogue.resolve(call.reference)
        brought = context_of(call, self._ring)
        caller = caller_of(call, brought, tool)
        return await self._engine.prepare(tool, command_of(call, brought), caller, QuietChannel(), self._base_url)


class AccountQuestions:
    """Where the users of calls that wait for an account are sent. It asks who looks after requirements, and not the
    engine: that somebody looks at a call runs nothing of the author's and counts in no limit."""

    def __init__(self, catalogue: Catalogue, requirer: Requirer, ring: KeyRing, base_url: Callable[[], str]) -> None:
        """`base_url`: this server's address, where people are sent first."""
        self._catalogue, self._requirer, self._ring, self._base_url = catalogue, requirer, ring, base_url

    async def of(self, call: CallRecord, looks: Caller) -> list[Question]:
        """Made anew each time that its caller looks. What a person must show there depends on how it is known who
        looks, and not on how that was when the call was made."""
        try:
            await self._check(call, looks.issuer)
        except MissingRequirements as error:
            return [
                Question(each.provider or each.id, "url", asked_for(call.tool, each) or error.message, url=each.url)
                for each in error.missing.authorization
            ]
        except (ToolyardError, BrokenSeal, *UNREADABLE):
            return []
        return []

    async def _check(self, call: CallRecord, issuer: str | None) -> None:
        """Raises MissingRequirements."""
        tool = self._catalogue.resolve(call.reference)
        brought = context_of(call, self._ring)
        caller = caller_of(call, brought, tool)
        caller = caller if issuer is None else replace(caller, issuer=issuer)
        command = await self._requirer.fill(tool, command_of(call, brought), caller)
        user = command.context.user_id
        self._requirer.check(tool, command, caller if user is None else caller.speaking_for(user), self._base_url)


def asked_for(tool_name: str, challenge: Challenge) -> str:
    """What a person is told. Nothing where it is no provider's."""
    said = f"{tool_name} needs your authorization at {challenge.provider}" if challenge.provider else ""
    return f"{said}. The page asks for this code: {challenge.code}" if challenge.code else said


WAITING_WIRES = frozenset({"lifecycle", "mcp-task"})
"""Where a caller is shown what its call waits for, and the call goes on by itself."""


class AccountNeeds:
    """Has a call that lacks something when it is about to begin wait for it, or end. `wait_s`: how long it waits."""

    def __init__(self, store: Store, wait_s: float) -> None:
        self._store, self._wait_s = store, wait_s

    async def hold(self, call: CallRecord, error: MissingRequirements | Unavailable) -> None:
        """A call that nobody has begun, or whose attempt was only just taken."""
        ending = ending_for(call, error)
        what = "waits for an account" if ending is None else f"ends as {ending.code}"
        _log.warning("%s (call %s) cannot begin, and %s", call.reference, call.key.call_id, what)
        await self._store.hold(WaitForAccount(call.seq, call.attempt, WaitingFor.AUTHORIZATION, self._wait_s, ending))


def ending_for(call: CallRecord, error: MissingRequirements | Unavailable) -> Ending | None:
    """None where it waits. Whoever cannot be shown where to connect the account has to call again."""
    if isinstance(error, Unavailable) or (call.wire in WAITING_WIRES and error.missing.can_come):
        return None
    lacks = f"it needs {in_words(error.missing)}, which is no longer there"
    if call.attempt > (call.state is State.PROCESSING):  # an earlier attempt was begun
        return ended_by(Move.UNKNOWN, f"The tool cannot be run again: {lacks}")
    message = f"The call was not begun: {lacks}. Nothing was done; call again"
    return ending_of(Outcome("", 0.0, error=ToolError(message, can_retry=True)))
