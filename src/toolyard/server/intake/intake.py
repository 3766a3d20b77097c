"""The way in for calls, whichever wire brought them.

A wire decodes a request into a `WireCall` and hands it over. `Intake.call` then does what is the same on every wire,
and nothing of it is done anywhere else:

    count it as running -> is the server ready -> has a strict audit log room -> which tool is meant ->
    the wire has the engine run it -> count how it ended -> audit entry -> the wire encodes

So a wire cannot forget to be audited, and what is to be measured of every call (a span, say) is measured here, once.
What comes in bundles, or is no call and passes the same gate, has a method of its own: a session's tool uses, the calls
that a worker claims, an author's prompts and resources.

This is the hot path: a call that ends at once passes through one coroutine here, and makes no object but its
`WireCall`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import CoroutineType
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from ...engine.engine import Engine
from ...model.asset import Asset
from ...model.call import CallContext, Outcome
from ...model.caller import Caller
from ...model.clock import Clock
from ...model.errors import StillRunning, ToolError, ToolNotFound, ToolyardError, Unavailable
from ...model.lifecycle import ENDED
from ...model.record import CallRecord
from ...model.tool import Tool
from ...store.values import StoreDown
from ...trust.audit.entry import AuditKind
from .metrics import Metrics
from .readiness import Readiness
from .witness import CallSource, RequestOrigin, Witness

R = TypeVar("R")
Claims = list[tuple[CallRecord, CallContext]]
NoteClaims = Callable[[Claims], Awaitable[None]]
SUCCESS, ACCEPTED, STILL_RUNNING = "success", "accepted", "still_running"
"""Codes in counters and entries that are no error's: a call that ended well, one that was taken and runs by itself, one
that goes on after its client was answered."""
UNWRITTEN = "The call was made, and could not be written to the audit log; look before you make it again"
RETRY_MS = 1000
CALL, REFUSED = AuditKind.CALL, AuditKind.REFUSED
"""Bound here, because looking up a member of an enum is dearer than a name and happens for each call."""


class Answered(Struct, Generic[R], frozen=True):
    """A call whose client has its answer although there is no outcome: it became a task, or joined one that runs."""

    reply: R
    code: str = SUCCESS
    call_id: str | None = None


class WireCall(CallSource, Protocol[R]):
    """One call as a wire hands it over: what is asked for, by whom and from where, and this wire's own way to find its
    tool, to have it run, and to put into words what became of it."""

    def resolve(self, engine: Engine) -> Tool:
        """The tool that is meant. Raises ToolNotFound or Forbidden, or what else the wire says of a tool that is not
        there for the caller."""
        ...

    def run(self, engine: Engine, tool: Tool) -> Coroutine[Any, Any, Outcome | Answered[R]]:
        """Has the engine run it. Not a coroutine of its own where the engine's will do: each costs as much as the
        checks here."""
        ...

    def encode(self, tool: Tool | None, outcome: Outcome) -> R | Coroutine[Any, Any, R]:
        """The answer to a call that ended, or goes on; `tool` is None for one that is not there any more. A coroutine
        where something has to be looked up first."""
        ...

    def encode_error(self, tool: Tool | None, error: ToolyardError) -> R:
        """The answer to a call whose tool did not run. May raise `error`, or another, for the transport to encode."""
        ...


class Intake:
    """Takes calls from the wires: lets them in or refuses them, hands them to the engine, and sees to it that each is
    counted and in the audit log, however it ended."""

    def __init__(self, engine: Engine, readiness: Readiness, metrics: Metrics, witness: Witness, clock: Clock) -> None:
        self._engine, self._readiness, self._metrics, self._witness = engine, readiness, metrics, witness
        self._monotonic = clock.monotonic
        self._is_strict, self._is_audited = witness.is_strict, witness.is_audited

    async def call(self, call: WireCall[R]) -> R:
        """Raises what the wire's own `resolve` and `encode_error` raise, and StoreDown where a strict audit log cannot
        be written."""
        started = self._monotonic()
        tool: Tool | None = None
        call_id, code, is_refused, has_reply = None, SUCCESS, False, False
        self._metrics.running += 1
        # A span of the call belongs here: it begins before anything can be refused, and ends in `finally`, where
        # what it should say (tool, code, duration, the call's id) is known.
        try:
            if not self._readiness.takes_calls:
                raise self._readiness.refusal()
            if self._is_strict:
                self._witness.refuse_without_room()
            try:
                tool = call.resolve(self._engine)
            except ToolNotFound:
                # A deploy may have taken the tool away. What was promised for a key is kept all the same.
                known = await self._engine.replay(call.command, call.caller)
                if known is None:
                    raise
                ended: Outcome | Answered[R] = known
            else:
                ended = await call.run(self._engine, tool)
            call_id = ended.call_id
            if isinstance(ended, Answered):
                code = ended.code
            elif (error := ended.error) is not None:
                code = STILL_RUNNING if isinstance(error, StillRunning) else error.code
            has_reply = True
        except ToolyardError as error:
            is_refused, code = True, type(error).__name__
            refusal = call.encode_error(tool, error)  # here: kept for later, the error would keep the whole request
            has_reply = True
        except BaseException as error:  # a defect, or the end of the server: it is counted and written down, too
            code = type(error).__name__
            raise
        finally:
            self._metrics.running -= 1
            seconds = self._monotonic() - started
            self._metrics.record(call.command.wire, "" if tool is None else tool.id, code, seconds)
            if self._is_audited:
                self._witness.called(REFUSED if is_refused else CALL, tool, call, call_id, code, seconds)
                if self._is_strict and not has_reply:
                    await self._witness.written()
        if is_refused:
            await self._witness.written()
            return refusal
        if self._is_strict:
            ended = await self._written(call, ended)
        if isinstance(ended, Answered):
            return ended.reply
        reply = call.encode(tool, ended)
        del ended  # it may be large, and be read again when there is room for it
        return await reply if isinstance(reply, CoroutineType) else reply  # type: ignore[return-value]

    async def _written(self, call: WireCall[R], ended: Outcome | Answered[R]) -> Outcome | Answered[R]:
        """What may be told of a call, now that it is in the log. Raises StoreDown where it is not and may be asked for
        again: without a key nobody could tell a second call from the first."""
        try:
            await self._witness.written()
        except StoreDown:
            if isinstance(ended, Answered) or call.command.call_id is not None:
                raise
            return Outcome(ended.call_id, ended.duration_ms, error=ToolError(UNWRITTEN, can_retry=False))
        return ended

    async def again(self, call: CallSource) -> Outcome:
        """How a call with a key ended, from the ledger: for a wire that could not keep it until its client had room.
        Raises Unavailable where it is not there, so that the client asks again."""
        known = await self._engine.replay(call.command, call.caller)
        if known is None:
            raise Unavailable("The result cannot be read now; send the request again", retry_after_ms=RETRY_MS)
        return known

    async def refused(self, call: WireCall[Any], error: ToolyardError) -> None:
        """A request about a call that runs already was refused: its tool is not there for the caller any more."""
        code = type(error).__name__
        self._metrics.record(call.command.wire, "", code, 0.0)
        if self._is_audited:
            self._witness.called(REFUSED, None, call, None, code, 0.0)
            await self._witness.written()

    def tell_early(self, call: CallSource, call_id: str, tell: Callable[[], None]) -> None:
        """Tells a client, by `tell`, that its call goes on. Where the log is strict that is written first, and where it
        cannot be written, the client waits for the end."""
        if self._is_strict:
            self._engine.beside(self._tell_once_written(call, call_id, tell))
        else:
            tell()

    async def _tell_once_written(self, call: CallSource, call_id: str, tell: Callable[[], None]) -> None:
        if await self.note_still_running(call, call_id):
            tell()

    async def note_still_running(self, call: CallSource, call_id: str) -> bool:
        """Whether a client may be told that its call goes on: where the log is strict, as soon as that is in it, and
        never of a call that is not in the ledger. Raises StoreDown."""
        if not self._is_strict:
            return True
        recorded = await self._engine.recorded_call(call.caller, call.command.family, call_id)
        if recorded is None:
            return False
        await self._witness.told_early(recorded, call.caller, call.origin, STILL_RUNNING)
        return True

    async def note_early(self, call: CallRecord, caller: Caller, origin: RequestOrigin, code: str) -> None:
        """A client is about to be told something of a call that goes on: where the log is strict, that is written
        first. Raises StoreDown."""
        if self._is_strict:
            await self._witness.told_early(call, caller, origin, code)

    async def uses(
        self, wire: str, caller: Caller, origin: RequestOrigin, take: Callable[[], Awaitable[list[CallRecord]]]
    ) -> list[CallRecord]:
        """A model's tool uses, as one message of a session brings them: `take` takes all or none. They run by
        themselves, so each is counted as accepted, or as ended where its result was there already. Raises what `take`
        raises, Unavailable, and StoreDown."""
        if not self._readiness.takes_calls:
            raise self._readiness.refusal()
        self._witness.refuse_without_room()
        started = self._monotonic()
        calls = await take()
        seconds = self._monotonic() - started
        for call in calls:
            name = call.reference.partition("@")[0] if _is_of_the_server(call) else ""
            self._metrics.record(wire, name, _code_of(call), seconds)
        self._witness.used(wire, calls, caller, origin)
        await self._witness.written()
        return calls

    async def claims(
        self, caller: Caller, origin: RequestOrigin, claim: Callable[[NoteClaims], Awaitable[Claims]]
    ) -> Claims:
        """Calls that a worker is given, by `claim`, which is handed what notes them: each is in the log before the
        worker has it, where that must be. Raises what `claim` raises, Unavailable, and StoreDown."""

        async def note(claims: Claims) -> None:
            self._witness.claimed([call for call, _ in claims], caller, origin)
            await self._witness.written()

        # To a worker that comes back to a server that leaves, having nothing to do would mean: ask again at once.
        if not self._readiness.takes_calls:
            raise self._readiness.refusal()
        self._witness.refuse_without_room()
        return await claim(note)

    @asynccontextmanager
    async def asset(
        self,
        kind: AuditKind,
        asset: Asset,
        caller: Caller,
        origin: RequestOrigin,
        is_refusal: Callable[[BaseException], bool],
    ) -> AsyncIterator[None]:
        """A prompt or a resource, which is got within the block: it counts against the caller's limits, and whatever
        becomes of it is in the log, as refused where `is_refusal` says so of what the block raises. Raises
        LimitReached, Unavailable and StoreDown."""
        self._witness.refuse_without_room()
        seen = kind
        try:
            async with self._engine.counted(asset, caller):
                yield
        except BaseException as error:
            if is_refusal(error):
                seen = REFUSED
            raise
        finally:
            self._witness.did(seen, asset.path, caller, origin.address)
            await self._witness.written()


def _is_of_the_server(call: CallRecord) -> bool:
    """Whether a tool of this server runs it, or has run it. Any other name is the client's invention, and nothing is
    counted by it: with a new one for each call the table of counters would grow without end."""
    return call.queue != "session" and (call.state not in ENDED or call.started_at is not None)


def _code_of(call: CallRecord) -> str:
    """How a call that was taken stands, as counters and entries say it."""
    if call.state not in ENDED:
        return ACCEPTED
    return call.code or SUCCESS
