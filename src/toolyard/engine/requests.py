"""Calls that others work on, called requests: those of workers' tools, and those of tools that a session brought.

Workers claim them, renew their claim, answer or hand them back; the ledger judges each of these writes, so that whoever
comes late is refused (`model/judge.py`). Here it is decided who may touch a request, what a worker is given with one
(`worker_context`), and what of its answer counts: checked against the tool's schema, and without the secrets that the
worker was given.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from ..catalogue import Catalogue
from ..model.call import CallContext, Outcome
from ..model.caller import LOCAL, Caller
from ..model.channel import Audience
from ..model.errors import (
    Forbidden,
    InvalidInput,
    MissingRequirements,
    PathNotFound,
    Problem,
    Refused,
    ToolError,
    ToolNotFound,
    Unavailable,
)
from ..model.judge import Verdict, ended_by, reason_of
from ..model.lifecycle import ENDED, Move, WaitingFor
from ..model.record import CallRecord, Ending, ending_of
from ..model.tool_patterns import MOST_TRIES, tries
from ..model.worker import Claim, Heartbeat, Renewal, Response
from ..model.writes import DIRECT, Answer, Claimant, HandBack, HeartbeatWrite, Reason, WaitForAccount
from ..runners.result import to_json
from ..runners.scrub_thread import scrubbed, scrubbed_error
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import ClaimFilter, StoreDown
from ..trust.sealing.ring import BrokenSeal
from .account_wait import AccountNeeds
from .caller_turns import CallerTurns
from .claim_looks import ClaimLooks
from .engine import Engine
from .rebuild import NO_INPUT, NO_KEY, UNREADABLE
from .wait import Wait, holding
from .worker_context import WorkerContexts

LOOK_AGAIN_S = 1.0
Claims = list[tuple[CallRecord, CallContext]]
"""What a worker is given, each with what it needs."""
_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode

NOT_THERE = "There is no such request"
SENTENCES: dict[Reason, str] = {
    "completed": "The request is complete already",
    "failed": "The request has failed already",
    "abandoned": "The request was given up",
    "cancelled": "The request was cancelled",
    "held": "Somebody else works on this request",
    "stale_attempt": "This attempt is no longer the one that counts",
    "conflict": "The request was answered already, with something else",
    "waiting": "The request waits for something else first",
}


class Requests:
    """What callers and workers do with requests. What somebody may not see looks like what is not there."""

    def __init__(
        self, store: Store, catalogue: Catalogue, engine: Engine, given: WorkerContexts, lacking: AccountNeeds
    ) -> None:
        self._store, self._catalogue, self._engine = store, catalogue, engine
        self._given, self._lacking = given, lacking
        self._looks, self._renewing = ClaimLooks(store), CallerTurns()

    async def heartbeat(self, at: "At", said: Heartbeat) -> int:
        """Claims or renews; with an error, ends it. The attempt's number."""
        if said.error is None:
            (verdict,) = await self._store.beat([at.beat(said.heartbeat)])
            return await self._attempt(at, verdict)
        digest = digest_of({"error": said.error.members()})
        scrubber = await self._given.scrubber(at.who, at.session, at.request, at.attempt)
        error = said.error if scrubber is None else await scrubbed_error(scrubber, said.error)
        return await self._answer(at, ending_of(Outcome("", 0.0, error=error)), digest)

    async def respond(self, at: "At", response: Response) -> int:
        """Ends the request with its result, if that fits its schema, and otherwise as failed. The attempt's number."""
        record = await self._visible(at)
        digest = digest_of({"response": response.result})
        return await self._answer(at, await self._ending(record, response, at.who), digest)

    async def leave(self, at: "At") -> int:
        """Gives it back to whoever comes next."""
        verdict = await self._store.leave(HandBack(at.session, at.request, at.who, at.attempt))
        return await self._attempt(at, verdict)

    async def renew(self, who: Claimant, renewals: Sequence[Renewal]) -> list[tuple[str, Verdict | None]]:
        """Many heartbeats at once. None of them claims."""
        beats = [
            HeartbeatWrite(
                each.session, each.request, who, each.attempt, progress=await self._said(who, each), claims=False
            )
            for each in renewals
        ]
        async with self._renewing.of(who):
            verdicts = await self._store.beat(beats)
        return [(each.request, verdict) for each, verdict in zip(renewals, verdicts, strict=True)]

    async def _said(self, who: Claimant, renewal: Renewal) -> bytes | None:
        """How far it is, without what it was given."""
        if renewal.progress is None:
            return None
        scrubber = await self._given.scrubber(who, renewal.session, renewal.request, renewal.attempt)
        return _encode(renewal.progress if scrubber is None else await scrubbed(scrubber.value, renewal.progress))

    async def claim(
        self, who: Callable[[], Claimant], claim: Claim, audience: Audience, note: Callable[[Claims], Awaitable[None]]
    ) -> Claims:
        """Waits for work, if need be. `who` says each time what the worker serves by now: it may come before its own
        registration; `note` writes down what it is given. Whoever has gone meanwhile, or has lost its credentials, is
        given none, nor is who serves less by then: it goes back, for another to claim. Raises InvalidInput for too many
        patterns."""
        _refuse_loose(who(), claim.tools)
        wait = Wait(claim.wait_s, audience)
        given: Claims = []

        def has_lost(claimant: Claimant) -> bool:
            return wait.is_given_up or not claimant.serves <= who().serves

        async def came() -> bool:
            nonlocal given
            claimant = who()
            calls = await self._looks.look(ClaimFilter(claimant, claim.tools, limit=claim.limit))
            # Each step takes time in which the worker may go: what comes of it is looked at after each.
            if calls and not has_lost(claimant):
                contexts = await self._contexts(calls, claimant)
                given = [(call, each) for call, each in zip(calls, contexts, strict=True) if each is not None]
            if given and not has_lost(claimant):
                await note(given)
            if has_lost(claimant):
                given = []
                for call in calls:
                    await self._hand_back(call, claimant)
            return bool(calls)

        await holding(self._store, ((Topic.PENDING, ""),), wait, came, LOOK_AGAIN_S)
        return given

    async def _hand_back(self, call: CallRecord, who: Claimant) -> None:
        await self._store.leave(HandBack(call.session or "", call.request or "", who, call.attempt))

    async def _contexts(self, claims: Sequence[CallRecord], who: Claimant) -> list[CallContext | None]:
        """What is kept for them is got for all at once: one provider may be slow."""
        if any(map(self._given.may_be_kept, claims)):
            return await asyncio.gather(*(self._opened(call, who) for call in claims))
        return [await self._opened(call, who) for call in claims]

    async def _opened(self, call: CallRecord, who: Claimant) -> CallContext | None:
        """What a call is given to its worker with. None: it is not given to it, as it lacks what it needs, or that is
        not for this worker."""
        try:
            context = await self._given.context_of(call, who)
            if context is None:
                await self._hand_back(call, who)
            return context
        except (BrokenSeal, Forbidden, *UNREADABLE) as error:
            why = NO_KEY if isinstance(error, BrokenSeal) else NO_INPUT
            ending = ended_by(Move.ABANDON, error.message if isinstance(error, Forbidden) else why)
            await self._store.hold(WaitForAccount(call.seq, call.attempt, WaitingFor.AUTHORIZATION, 0.0, ending))
        except StoreDown:
            raise
        except (MissingRequirements, Unavailable) as error:
            await self._lacking.hold(call, error)
        return None

    async def listed(self, wanted: Callable[[], ClaimFilter], wait: Wait) -> list[CallRecord]:
        """`wanted` says each time what there is for whoever asks by now."""
        found: list[CallRecord] = []

        async def came() -> bool:
            nonlocal found
            found = await self._looks.listed(wanted())
            return bool(found)

        await holding(self._store, ((Topic.PENDING, ""),), wait, came, LOOK_AGAIN_S)
        return found

    async def show(self, who: Claimant, caller: Caller, session: str, request: str) -> CallRecord:
        """What another caller's worker has, or had, is not shown, though the tool be of both."""
        at = At(who, session, request, caller=caller)
        record = await self._visible(at)
        if record.holder is not None and not at.is_owners(record) and not who.has(record.holder):
            raise PathNotFound(NOT_THERE)
        return record

    async def cancel(self, caller: Caller, session: str, request: str) -> CallRecord:
        """By the session's owner. Whoever was first, the answer shows."""
        record = await self._visible(At(Claimant(caller.tenant, caller.subject), session, request, caller=caller))
        await self._store.cancel(record.seq)
        return await self._store.row(record.seq) or record

    async def _answer(self, at: "At", ending: Ending, digest: bytes) -> int:
        verdict = await self._store.answer(Answer(at.session, at.request, at.who, ending, digest, at.attempt))
        if verdict is not None and verdict.reason is None:
            await self._given.forget(at.session, at.request)
        return await self._attempt(at, verdict)

    async def _ending(self, record: CallRecord, response: Response, who: Claimant) -> Ending:
        """A worker's result is its `value`, or all that it said; a session's is all that was said."""
        scrubber = await self._given.scrubber_of(record)
        value: Any = response.result
        if scrubber is not None:
            value = await scrubbed(scrubber.value, value)
        broken: ToolError | None = None
        if record.queue == "worker":
            value = value["value"] if value.keys() == {"value"} else value
            try:
                tool = self._catalogue.resolve(record.reference)
                if record.is_of(tool):
                    broken = await self._engine.plans.check_result(tool, value, (who.tenant, who.subject))
            except ToolNotFound:
                pass  # its worker is about to go; the result counts all the same
        else:
            broken = await self._session_check(record, value)
        if broken is None:
            result = to_json(value)
            broken = self._engine.plans.too_large(record.tool, result)
        return ending_of(Outcome("", 0.0, None if broken else result, broken))

    async def _session_check(self, record: CallRecord, value: Mapping[str, Any]) -> ToolError | None:
        session = await self._store.session(record.key.tenant, record.key.subject, record.session or "")
        for tool in session.tools if session else ():
            if tool.name != record.tool or tool.output_schema is None:
                continue
            whose = (record.key.tenant, record.key.subject)
            if await self._engine.plans.sandbox.check(tool.output_schema, value, whose):
                return ToolError(f"{tool.name} gave a result that does not fit its output schema", can_retry=False)
        return None

    async def _attempt(self, at: "At", verdict: Verdict | None) -> int:
        """The attempt, or why it was refused. What cannot be seen is not there."""
        if verdict is None:
            record = await self._visible(at)
            raise _refused("held" if record.state not in ENDED else reason_of(record.state, record.code))
        if verdict.reason is not None:
            raise _refused(verdict.reason)
        return verdict.attempt

    async def _visible(self, at: "At") -> CallRecord:
        """Not to the session's owner, with credentials that are not for its tool."""
        record = await self._store.request(at.who, at.session, at.request)
        if record is None or (at.is_owners(record) and not self._engine.own_calls.shows(record, at.caller)):
            raise PathNotFound(NOT_THERE)
        return record


def _refuse_loose(who: Claimant, patterns: Sequence[str]) -> None:
    """Raises InvalidInput where patterns that have to be tried on each tool are too many for so many tools."""
    if (wanted := tries(who.serves, patterns)) > MOST_TRIES:
        why = f"With {len(who.serves)} tools they have to be tried {wanted} times, and {MOST_TRIES} is the most"
        raise InvalidInput((Problem("tools", f"{why}; name tools, or have the only * at the end of a pattern"),))


class At:
    """Who speaks of which request, and which attempt at it they say is theirs. `caller` has their credentials, which
    may be for some tools alone."""

    __slots__ = ("attempt", "caller", "request", "session", "who")

    def __init__(
        self, who: Claimant, session: str, request: str, attempt: int | None = None, caller: Caller = LOCAL
    ) -> None:
        self.who, self.session, self.request, self.attempt, self.caller = who, session, request, attempt, caller

    def is_owners(self, record: CallRecord) -> bool:
        """Whether they own the session that the request is of."""
        return self.session != DIRECT and (record.key.tenant, record.key.subject) == (self.who.tenant, self.who.subject)

    def beat(self, heartbeat: float | None) -> HeartbeatWrite:
        return HeartbeatWrite(self.session, self.request, self.who, self.attempt, heartbeat)


def digest_of(said: Mapping[str, Any]) -> bytes:
    """The same for the same members in any order."""
    return sha256(_sorted(said)).digest()


def _refused(reason: Reason) -> Refused:
    return Refused(SENTENCES[reason], reason)
