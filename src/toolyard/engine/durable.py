"""Calls that are recorded before they run: those with a key run once and are answered from the ledger ever after, those
of workers' tools wait there for a worker.

An attempt of this node runs in a task of its own. Whoever asks for the call, the first time or again, waits for that
task; who will not wait longer is told to come back, and the attempt goes on. A call that runs elsewhere is waited for
in the same way.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from ..model.call import CallTool, Outcome
from ..model.caller import Caller
from ..model.channel import Channel, QuietChannel, nothing
from ..model.errors import (
    Busy,
    KeyConflict,
    LimitReached,
    MissingRequirements,
    NotAuthenticated,
    RequestError,
    StillRunning,
    ToolError,
)
from ..model.lifecycle import ENDED, WaitingFor
from ..model.record import CallKey, CallName, CallRecord, NewCall
from ..model.run import Run
from ..store.hints import Topic
from ..store.values import Begun, NotedCalls
from ..trust.approvals.links import ApprovalLinks
from ..trust.approvals.rules import ApprovalRules
from ..trust.limits.meters import Admitted
from ..trust.limits.quotas import Quotas
from ..trust.sealing.fingerprints import Fingerprints, Prints
from .concurrency import Slots
from .node import HeldAttempt, Node
from .wait import RETRY_AFTER_MS, Wait, holding, outcome_from_ledger, stopping, until_one_is_done

LOOK_AGAIN_S = 0.1
HOLD = "hold"
"""The kind of notes by which calls that wait and have no key are known again."""
COLLECT_S = 86400.0
"""How long what became of such a call is kept for who asks again."""
_log = logging.getLogger("toolyard.ledger")

Attempt = Callable[[], Awaitable[Outcome]]
"""Runs the tool: everything after the call was checked and recorded."""
Hear = Callable[[int, Channel, Caller], Awaitable[None]]
"""Puts what a call asks to somebody who joined it, for as long as it runs."""


class InputCheck(Struct, frozen=True):
    """How a call is checked and prepared, once it is clear that it is not known already."""

    prepare: "Callable[[], Awaitable[PreparedCall]]"
    """Raises what is wrong with the call."""
    base_url: Callable[[], str] = str
    """The server's address, as its client has it."""
    looks_first: bool = True
    """Whether the ledger is asked for the call before `prepare` runs."""
    refuse_unseen: Callable[[], None] = nothing
    """Raises what a new request would be refused with, where the rules have taken the tool away from the caller."""


class PreparedCall(Struct):
    """A call that was found valid: what to record, how to run it, and the line it has to stand in first."""

    new: NewCall
    run: Run
    attempt: Attempt
    slots: Slots | None = None
    stops_when_gone: bool = False
    """Whether a client that goes away takes the call with it."""
    admitted: Admitted | None = None
    """What it counts among, until its end."""
    base_url: Callable[[], str] = str
    """The server's address, as its client has it."""

    def uncount(self) -> None:
        """Takes it out of the limits that it counted in: it was made before, or is not made after all."""
        if self.admitted is not None:
            self.admitted.take_back()
            self.admitted = None

    def stop_counting(self) -> None:
        """Takes it out of the calls that run at once: it is recorded and waits. It still counts in its minute."""
        if self.admitted is not None:
            self.admitted.end()


class Undecided(Exception):
    """Raised where a call waits for a person's yes. `is_new`: it was recorded just now, and nobody was told of it
    yet."""

    def __init__(self, call: CallName, tool: str, base_url: Callable[[], str], *, is_new: bool = False) -> None:
        self.call, self._tool, self._base_url, self.is_new = call, tool, base_url, is_new

    def told(self, links: ApprovalLinks) -> MissingRequirements:
        return links.missing(self._tool, self.call, self._base_url())


class UnderWay(Exception):
    """Raised where somebody else has begun the call that was to begin: a node before this one, or another. Who asked
    joins it, and waits as everybody waits who did not begin it."""

    def __init__(self, call: CallRecord) -> None:
        self.call = call


class Waiter(Struct, frozen=True):
    """Who waits for a call, and for how long."""

    caller: Caller
    channel: Channel
    is_patient: bool
    """Whether they wait until its end."""
    wait: Wait | None = None
    """What is left to who was held already."""
    refuse_unseen: Callable[[], None] = nothing
    """As `InputCheck` has it: asked of who joined a call, once there is something to tell."""


class RunningCall(Struct):
    """A recorded call that somebody on this node waits for."""

    task: "asyncio.Task[Outcome]"
    recorded: "asyncio.Future[int]"
    """Its number, once it is in the ledger: nothing is promised of it before."""
    is_here: bool = False
    """Whether this node runs it."""
    clients: set[object] = field(default_factory=set)
    """A mark for each client of this node that asked for it and has not left."""
    stop: Callable[[], None] | None = None
    """What ends it once all of them have left; None where it goes on without them."""

    def asked_by(self, channel: Channel) -> None:
        """One more client waits for it, or comes back for it: it is stopped only when that one has left, too."""
        mark = object()
        self.clients.add(mark)
        channel.when_gone(partial(self._left, mark))

    def _left(self, mark: object) -> None:
        """A client may be said to have left more than once."""
        if mark in self.clients:
            self.clients.discard(mark)
            if not self.clients and self.stop is not None:
                self.stop()


class DurableCalls:
    """The recorded calls that somebody on this node waits for. One key, one execution: a call that comes again joins
    the one that runs, or is answered from the ledger."""

    def __init__(
        self,
        node: Node,
        fingerprints: Fingerprints,
        approvals: ApprovalRules,
        links: ApprovalLinks,
        sync_wait_s: float,
        most_pending: int,
        quotas: Quotas,
        hear: Hear,
    ) -> None:
        self._node, self._store, self._fingerprints = node, node.store, fingerprints
        self.approvals, self.links = approvals, links
        self._sync_wait_s, self._most_pending, self._quotas, self._hear = sync_wait_s, most_pending, quotas, hear
        self._running: dict[tuple[CallKey, bytes], RunningCall] = {}
        """By key and fingerprint: of two calls that share a key, the ledger says which one has it."""

    async def call(self, command: CallTool, caller: Caller, check: InputCheck, channel: Channel) -> Outcome:
        """How the call ended, or that it still runs. A call that waits for a person is told of at once; made again, it
        is held until that person has decided, or for as long as one waits for a tool."""
        waiter = Waiter(caller, channel, command.is_patient, refuse_unseen=check.refuse_unseen)
        while True:
            try:
                outcome = await self._call(command, waiter, check)
                if waiter.wait is not None:
                    waiter.refuse_unseen()
                return outcome
            except Undecided as undecided:
                wait = waiter.wait or Wait(self._sync_wait_s, channel)
                if undecided.is_new or not await self._decided(undecided.call.seq, wait):
                    raise undecided.told(self.links) from None
                waiter = replace(waiter, wait=wait)
            except UnderWay as begun:
                call = begun.call
                return await self._joined(call.key, self._followed(call, self._prints(command)), waiter)
            except NotAuthenticated:
                # Of whoever stood in line. Others who joined the call make it themselves, if they still may.
                if _is_expired(channel):
                    raise

    async def _decided(self, seq: int, wait: Wait) -> bool:
        async def came() -> bool:
            call = await self._store.row(seq)
            return call is None or call.waiting_for != WaitingFor.APPROVAL

        return await holding(self._store, ((Topic.DECIDED, seq), (Topic.ENDED, seq)), wait, came)

    async def _call(self, command: CallTool, waiter: Waiter, check: InputCheck) -> Outcome:
        """A known key with the same fingerprint is answered before anything is checked, one with another only after."""
        if command.call_id is None:
            work = await check.prepare()
            if work.new.waiting_for is not None:
                return await self._collected(command, waiter, work)
            return await self._wait(work.new.key, self._start(work), waiter, can_join=False)
        key, prints = _key(command, waiter.caller), self._prints(command)
        if (running := self._joinable(key, prints)) is not None:
            return await self._joined(key, running, waiter)
        if check.looks_first:
            if (known := await self._known(key, prints, check.base_url, waiter)) is not None:
                return known
            if (running := self._joinable(key, prints)) is not None:  # it began while this one looked
                return await self._joined(key, running, waiter)
        try:
            work = await check.prepare()
        except (RequestError, LimitReached):
            if (running := self._joinable(key, prints)) is not None:  # what was refused is no new call
                return await self._joined(key, running, waiter)
            known = await self._known(key, prints, check.base_url, waiter)
            if known is None:
                raise
            return known
        if (running := self._joinable(key, prints)) is not None:  # it began while this one was prepared
            work.uncount()
            return await self._joined(key, running, waiter)
        work.new.key, work.new.fingerprint, work.new.prints = key, prints[0], prints
        return await self._wait(key, self._start(work), waiter)

    def _joinable(self, key: CallKey, prints: tuple[bytes, ...]) -> RunningCall | None:
        for each in prints:
            if (running := self._running.get((key, each))) is not None:
                return running
        return None

    async def detach(self, command: CallTool, caller: Caller, check: InputCheck) -> int:
        """Records a call that nobody waits for and has it run. Its number, or that of the call that has its key."""
        if check.looks_first and (known := await self.known(command, caller)) is not None:
            return known.seq
        try:
            work = await check.prepare()
        except LimitReached:
            known = await self.known(command, caller)
            if known is None:
                raise
            return known.seq
        if command.call_id is not None:
            work.new.key = _key(command, caller)
            work.new.prints = self._prints(command)
            work.new.fingerprint = work.new.prints[0]
        try:
            begun = await self._begun(work)
        except BaseException:
            work.uncount()
            raise
        if begun.seq == 0:
            work.uncount()
            if not work.new.has(_fingerprint(begun)):
                raise _conflict(work.new.key)
            return _known_call(begun, work.new.key).seq
        work.stops_when_gone = False
        if work.new.waiting_for is None:
            self.go_on(begun.seq, 1, work)
        else:
            work.stop_counting()
        return begun.seq

    async def known(self, command: CallTool, caller: Caller) -> CallRecord | None:
        """The call that was made before with the same key, tool, user and input."""
        if command.call_id is None:
            return None
        begun = await self._store.find(_key(command, caller))
        if begun is None or begun.known is None or _fingerprint(begun) not in self._prints(command):
            return None
        return begun.known

    async def replay(self, command: CallTool, caller: Caller) -> Outcome | None:
        """What a call whose tool is gone was answered with."""
        key = _key(command, caller)
        waiter = Waiter(caller, QuietChannel(), command.is_patient)
        try:
            return await self._known(key, self._prints(command), self.links.base_url, waiter)
        except Undecided as undecided:
            raise undecided.told(self.links) from None

    def print_of(self, command: CallTool) -> bytes:
        return self._prints(command)[0]

    def _prints(self, command: CallTool) -> Prints:
        """What the same call is known by."""
        command.keep_input()
        return self._fingerprints.all_of(command.tool_id, command.context.user_id, Raw(command.input_json))

    @property
    def runs_any(self) -> bool:
        """Whether any attempt runs here."""
        return any(running.is_here for running in self._running.values())

    def let_go(self) -> None:
        """Nobody waits any more for what runs elsewhere: who asked is told to come back."""
        for running in self._running.values():
            if not running.is_here:
                running.task.cancel()

    async def close(self, grace_s: float, hurried: threading.Event) -> None:
        """Waits for what still runs here, so long or until it is hurried; then stops it, and leaves it to others where
        that is right."""
        self.let_go()
        tasks = [running.task for running in self._running.values()]
        deadline = time.monotonic() + grace_s
        while any(not task.done() for task in tasks) and time.monotonic() < deadline and not hurried.is_set():
            await asyncio.wait(tasks, timeout=LOOK_AGAIN_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def go_on(self, seq: int, attempt: int, work: PreparedCall) -> None:
        """Runs an attempt of a call that is recorded already. What runs elsewhere is only waited for, and that only
        where it counts among those at once."""
        key, fingerprint = work.new.key, work.new.fingerprint
        if work.new.queue == "node":
            line = self._in_line(seq, attempt, work)
            self._enter(key, fingerprint, line, _done(seq), work.admitted).is_here = True
        elif work.admitted is not None:
            self._enter(key, fingerprint, outcome_from_ledger(self._store, seq), _done(seq), work.admitted)

    async def _in_line(self, seq: int, attempt: int, work: PreparedCall) -> Outcome:
        """What is recorded stands in line too, and ends if that takes too long."""
        if work.slots is None:
            return await self._here(seq, attempt, work)
        try:
            async with work.slots.turn(work.run.caller, work.run.channel):
                return await self._here(seq, attempt, work)
        except Busy as busy:
            error = ToolError(busy.message, can_retry=True, retry_after_ms=busy.retry_after_ms)
            held = HeldAttempt(self._node, seq, attempt, work.new.on_lost, work.run)
            return await held.finished(Outcome(work.new.key.call_id, 0.0, error=error))

    def runs(self, call: CallRecord) -> bool:
        """Whether this node runs it."""
        running = self._running.get((call.key, call.fingerprint))
        return running is not None and running.is_here

    def is_nobodys(self, call: CallRecord | None) -> bool:
        """Whether a call that this node should be running is not: the store failed just when it was recorded."""
        if call is None or call.queue != "node" or call.state in ENDED:
            return False
        return call.holder == self._store.node and not self.runs(call)

    def _start(self, work: PreparedCall) -> RunningCall:
        recorded = asyncio.get_running_loop().create_future()
        once = self._recorded(work, recorded) if work.slots is None else self._once(work, work.slots, recorded)
        return self._enter(work.new.key, work.new.fingerprint, once, recorded, work.admitted)

    def _enter(
        self,
        key: CallKey,
        fingerprint: bytes,
        work: "asyncio._CoroutineLike[Outcome]",
        recorded: "asyncio.Future[int]",
        admitted: Admitted | None = None,
    ) -> RunningCall:
        task = asyncio.get_running_loop().create_task(work)
        running = self._running[key, fingerprint] = RunningCall(task, recorded)
        self._quotas.begin(key.tenant, key.subject)
        task.add_done_callback(partial(self._ended, (key, fingerprint), running, admitted))
        return running

    def _ended(
        self,
        which: tuple[CallKey, bytes],
        running: RunningCall,
        admitted: Admitted | None,
        task: "asyncio.Task[Outcome]",
    ) -> None:
        self._quotas.end(which[0].tenant, which[0].subject)
        if admitted is not None:
            admitted.end()
        if self._running.get(which) is running:
            del self._running[which]
        if not task.cancelled() and task.exception() is not None:
            _log.debug("call %s was not made: %s", which[0].call_id, task.exception())  # its callers are told

    async def _once(self, work: PreparedCall, slots: Slots, recorded: "asyncio.Future[int]") -> Outcome:
        """Who has to stand in line does so before anything is recorded, but not for what is known already."""
        begun = await self._store.find(work.new.key) if work.new.keyed else None
        if begun is not None and work.new.has(_fingerprint(begun)) and not self.is_nobodys(begun.known):
            recorded.set_result(_number(begun))
            work.uncount()
            return await self._found(begun, work)
        async with slots.turn(work.run.caller, work.run.channel):
            return await self._recorded(work, recorded)

    async def _recorded(self, work: PreparedCall, recorded: "asyncio.Future[int]") -> Outcome:
        new = work.new
        begun = await self._begun(work)
        if not recorded.done():
            recorded.set_result(_number(begun))
        if begun.seq == 0:
            work.uncount()
            return await self._found(begun, work)
        if new.waiting_for is not None:
            raise _undecided(new.name(begun.seq), work, is_new=True)
        if new.queue != "node":
            return await self._elsewhere(begun.seq, work)
        return await self._here(begun.seq, 1, work)

    def _begun(self, work: PreparedCall) -> Awaitable[Begun]:
        """Records a call, if it is not there already."""
        return self._begun_waiting(work) if work.new.waits else self._store.begin(work.new)

    async def _begun_waiting(self, work: PreparedCall) -> Begun:
        """Recorded, if the caller may have one more that waits, or if it is there already. Raises LimitReached."""
        new = work.new
        try:
            await self._quotas.room("waiting_calls", work.run.caller)
        except LimitReached:
            if not new.keyed or await self._store.find(new.key) is None:
                raise
        return await self._store.begin(new, None if new.queue == "node" else self._most_pending)

    def _here(self, seq: int, number: int, work: PreparedCall) -> Awaitable[Outcome]:
        if (running := self._running.get((work.new.key, work.new.fingerprint))) is not None:
            running.is_here = True
        self._stop_when_left(seq, work)
        return HeldAttempt(self._node, seq, number, work.new.on_lost, work.run).through(work.attempt())

    async def _elsewhere(self, seq: int, work: PreparedCall) -> Outcome:
        self._stop_when_left(seq, work)
        return await outcome_from_ledger(self._store, seq)

    def _stop_when_left(self, seq: int, work: PreparedCall) -> None:
        """Where the tool wants that: once the client that made the call has left, and all who joined it here."""
        running = self._running.get((work.new.key, work.new.fingerprint))
        if work.stops_when_gone and running is not None:
            running.stop = partial(self._cancel_later, seq)
            running.asked_by(work.run.channel)

    def joined_by(self, call: CallRecord, channel: Channel) -> None:
        """A client waits for a call in a way of its own (`RunningCall.asked_by`)."""
        if (running := self._running.get((call.key, call.fingerprint))) is not None:
            running.asked_by(channel)

    async def _collected(self, command: CallTool, waiter: Waiter, work: PreparedCall) -> Outcome:
        """A call that has to wait and has no key is known again by its input: made once more it is answered with what
        became of it. Who comes after that makes another; who joined it before its end has joined this one."""
        new, prints = work.new, self._prints(command)
        new.fingerprint, new.prints = prints[0], prints
        while True:
            try:
                begun = await self._begun_noted(work, prints)
            except BaseException:
                work.uncount()
                raise
            held = begun.known
            if held is None:
                work.stop_counting()
                raise _undecided(new.name(begun.seq), work, is_new=True)
            work.uncount()
            if held.waiting_for == WaitingFor.APPROVAL:
                raise _undecided(held.name, work)
            outcome = await self._joined(held.key, self._followed(held, prints), waiter)
            if isinstance(outcome.error, StillRunning) or await self.on_collected(held) or held.state not in ENDED:
                return outcome

    async def on_collected(self, call: CallRecord) -> bool:
        """Its caller has been told how it ended: the same input again is another call. Whether it is the first who is
        told."""
        place = _place(call.key, call.fingerprint)
        return not call.keyed and await self._store.drop_note(*place, b"%d" % call.seq)

    async def _begun_noted(self, work: PreparedCall, prints: tuple[bytes, ...]) -> Begun:
        """Recorded, if the caller may have one more that waits, or the same call that waits or was not collected yet.
        Raises LimitReached."""
        new = work.new
        places = [_place(new.key, each) for each in prints]
        try:
            await self._quotas.room("waiting_calls", work.run.caller)
        except LimitReached:
            if (held := await self._noted(places, new)) is None:
                raise
            return Begun(0, known=held)
        names = tuple(name for *_, name in places)
        noted = NotedCalls(HOLD, names, self.approvals.wait_s + COLLECT_S)
        return await self._store.begin_noted(new, noted, None if new.queue == "node" else self._most_pending)

    async def _noted(self, places: list[tuple[str, str, str, str]], new: NewCall) -> CallRecord | None:
        """The call that a note names: one of the same caller with the same input, or none."""
        for place in places:
            if (noted := await self._store.note(*place)) is not None:
                held = await self._store.row(int(noted))
                if held is not None and new.is_like(held):
                    return held
        return None

    def _cancel_later(self, seq: int) -> None:
        """The client has gone, so the task that ends the call is nobody's."""
        self._node.beside(self._store.cancel(seq))

    async def _known(
        self, key: CallKey, prints: tuple[bytes, ...], base_url: Callable[[], str], waiter: Waiter
    ) -> Outcome | None:
        begun = await self._store.find(key)
        if begun is None or _fingerprint(begun) not in prints:
            return None
        known = begun.known
        if known is None or known.state in ENDED:
            return await self._answer(begun, key)
        if known.waiting_for == WaitingFor.APPROVAL:
            raise Undecided(known.name, known.tool, base_url)
        return await self._joined(key, self._followed(known, prints), waiter)

    def _followed(self, call: CallRecord, prints: tuple[bytes, ...]) -> RunningCall:
        """A call that is under way, here or elsewhere."""
        running = self._joinable(call.key, prints)
        return running or self._enter(call.key, prints[0], outcome_from_ledger(self._store, call.seq), _done(call.seq))

    async def _found(self, begun: Begun, work: PreparedCall) -> Outcome:
        """The call is there already: it has ended, or it is under way, or nobody runs it although it is this node's,
        because the store failed just when it was recorded."""
        key, known = work.new.key, begun.known
        if not work.new.has(_fingerprint(begun)):
            raise _conflict(key)
        if known is None or known.state in ENDED:
            return await self._answer(begun, key)
        if known.waiting_for == WaitingFor.APPROVAL:
            raise _undecided(known.name, work)
        if self.is_nobodys(known):
            return await self._here(known.seq, known.attempt, work)
        raise UnderWay(known)

    async def _answer(self, begun: Begun, key: CallKey) -> Outcome:
        """What a call that has ended was answered with. Its payload may go while it is read."""
        known = _known_call(begun, key)
        if known.is_cut:
            known = _known_call(Begun(0, known=await self._store.row(known.seq)), key)
        return known.outcome()

    async def _joined(self, key: CallKey, running: RunningCall, waiter: Waiter) -> Outcome:
        """For who did not begin it: what it asks is not put to them by its run."""
        expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = waiter.channel.when_expired(lambda: expired.set_result(None))
        running.asked_by(waiter.channel)
        try:
            with self._hearing(running.recorded, waiter.channel, waiter.caller):
                outcome = await self._wait(key, running, waiter, expired=expired)
        finally:
            forget()
        waiter.refuse_unseen()
        return outcome

    @contextmanager
    def _hearing(self, recorded: "asyncio.Future[int]", channel: Channel, caller: Caller) -> Iterator[None]:
        """Meanwhile whoever waits hears what the call asks, wherever it runs."""

        async def heard() -> None:
            await asyncio.wait((recorded,))
            await self._hear(recorded.result(), channel, caller)

        channel.joins()
        hearing = asyncio.get_running_loop().create_task(heard())
        try:
            yield
        finally:
            hearing.cancel()

    async def _wait(
        self,
        key: CallKey,
        running: RunningCall,
        waiter: Waiter,
        *,
        can_join: bool = True,
        expired: "asyncio.Future[None] | None" = None,
    ) -> Outcome:
        """Who will not wait longer is told to come back, but not before there is something to come back for: a place
        in line and a write that is under way have limits of their own."""
        task, recorded = running.task, running.recorded
        left = self._sync_wait_s if waiter.wait is None else max(waiter.wait.left(), 0.0)
        waited: tuple[asyncio.Future[Any], ...] = (task,) if expired is None else (task, expired)
        timeout = None if waiter.is_patient else left
        await until_one_is_done(waited, timeout)
        if not task.done() and not recorded.done():
            await until_one_is_done((task, recorded))
        if task.done() and not task.cancelled():
            return task.result()
        if not recorded.done():
            raise stopping()
        return still_running(key.call_id) if can_join else ask_later(key.call_id)


def _key(command: CallTool, caller: Caller) -> CallKey:
    """What a call is looked up by. Raises Forbidden where the caller may not speak for its user: what is known of a
    call is told only to who may make it."""
    if command.context.user_id is not None:
        caller.speaking_for(command.context.user_id)
    return CallKey(caller.tenant, caller.subject, command.family, command.call_id or "")


def _is_expired(channel: Channel) -> bool:
    """Whether its client's credentials have ended."""
    ended: list[bool] = []
    forget = channel.when_expired(lambda: ended.append(True))
    forget()
    return bool(ended)


def _done(seq: int) -> "asyncio.Future[int]":
    """Of a call that is in the ledger already."""
    recorded: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    recorded.set_result(seq)
    return recorded


def _place(key: CallKey, fingerprint: bytes) -> tuple[str, str, str, str]:
    """Where the note of a call without a key is."""
    return HOLD, key.tenant, key.subject, f"{key.family} {fingerprint.hex()}"


def _number(begun: Begun) -> int:
    return begun.seq or (begun.known.seq if begun.known is not None else 0)


def _undecided(call: CallName, work: PreparedCall, *, is_new: bool = False) -> Undecided:
    return Undecided(call, work.run.tool.wire_name, work.base_url, is_new=is_new)


def still_running(call_id: str) -> Outcome:
    """For who will not wait longer: the same call again joins it."""
    error = StillRunning(
        "The tool is still running",
        developer_message="call again with the same call_id and input to wait for its result",
        can_retry=True,
        retry_after_ms=RETRY_AFTER_MS,
    )
    return Outcome(call_id, 0.0, error=error)


def ask_later(call_id: str) -> Outcome:
    """For who will not wait longer and chose no key: a second call would be a second one."""
    error = StillRunning(
        f"The tool is still running; its result will be at /v1/calls/{call_id}",
        developer_message=f"GET /v1/calls/{call_id}?wait=60 gives the result; calling again would run the tool again",
        can_retry=False,
    )
    return Outcome(call_id, 0.0, error=error)


def _known_call(begun: Begun, key: CallKey) -> CallRecord:
    if begun.known is None:
        raise KeyConflict(
            "This call was made before, and its result is no longer kept",
            developer_message=f"call_id {key.call_id!r} is still taken; use another for a new call",
        )
    return begun.known


def _fingerprint(begun: Begun) -> bytes:
    return begun.known.fingerprint if begun.known is not None else begun.tombstone or b""


def _conflict(key: CallKey) -> KeyConflict:
    return KeyConflict(
        "This call_id was used for another call",
        developer_message=f"call_id {key.call_id!r} was used before with another tool, user or input",
    )
