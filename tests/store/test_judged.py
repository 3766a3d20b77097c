"""What a store writes about a call is what `model.judge` says: for every state that a call can be in, every write, and
every attempt and writer that it can name.

The stores judge and write many calls in one conditional statement where that is faster. These tests do not ask which
way a write took: they read the row before, ask `judge` what should become of it at that time, and compare the row
after. The writes of one state are made at the same instant, so that they meet in one batch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from itertools import islice
from typing import Any, NamedTuple

import apsw
import pytest
from msgspec.structs import replace

from toolyard.model.judge import (
    Judged,
    Verdict,
    claimed,
    ended_by,
    frees_key,
    is_in_line,
    is_unstarted,
    judge,
    settle,
    verdict_of,
)
from toolyard.model.lifecycle import ENDED, Move, State, WaitingFor
from toolyard.model.record import Ending, NewCall
from toolyard.model.writes import (
    DIRECT,
    Answer,
    Ask,
    CallState,
    Cancel,
    Claimant,
    Decision,
    Finish,
    GiveUp,
    GoBack,
    HandBack,
    HeartbeatWrite,
    NodeHandBack,
    QuestionsClosed,
    RequestWrite,
    Resolve,
    Restart,
    WaitForAccount,
    Write,
)
from toolyard.store.contract import Store
from toolyard.store.fresh_numbers import SINCE, fresh_numbers
from toolyard.store.values import WentBack, waiting_for_of

from .calls import (
    ADA,
    ANEW,
    BOB,
    DONE,
    FAILED,
    HEIR,
    OTHER_WORKER,
    RETRY,
    SECOND,
    SHARER,
    STRANGER,
    UNKNOWN,
    WORKER,
    call,
    in_session,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import TERMS, Ledger, ManualClock, Opening

APPROVAL, ACCOUNT, ANSWER = WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION, WaitingFor.ANSWER
REJECTED = ended_by(Move.REJECT, "no", "none")
LACKING = Ending(State.ERROR, "tool_failed", 0.0, error=b'{"message":"lacks"}', releases_key=True)
UNTIMED = replace(DONE, duration_ms=0.0)
COLUMNS = ", ".join(CallState.__struct_fields__)
MANY = 1000
RUN_S, QUEUE_S, TOTAL_S, A_WHILE_S = 40.0, 25.0, 300.0, 2.5


# --- what is in the ledger ------------------------------------------------------------------------


class Row(NamedTuple):
    """A call as it stands in the table, and what became of it."""

    state: CallState
    outcome: tuple[Any, ...]
    is_sealed: bool
    has_key: bool


class Reader:
    """Reads the table by its own connection: nothing of the store is between."""

    SELECT = (
        f"SELECT {COLUMNS}, duration_ms, value, error, extra, sealed, "
        "EXISTS (SELECT 1 FROM keys WHERE keys.seq = calls.seq) FROM calls ORDER BY seq"
    )

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    async def rows(self) -> dict[int, Row]:
        made = map(_row, await self._fetch())
        return {each.state.seq: each for each in made}

    async def _fetch(self) -> list[Any]:
        if hasattr(self._ledger, "fetch"):
            found: list[Any] = await self._ledger.fetch(self.SELECT)
            return found
        reading = apsw.Connection(str(self._ledger.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(reading.execute(self.SELECT))
        finally:
            reading.close()


def _row(columns: Any) -> Row:
    *standing, duration_ms, value, error, extra, sealed, has_key = columns
    state = CallState(*standing)
    state.state, state.waiting_for = State(state.state), waiting_for_of(state.waiting_for)
    return Row(counted(state), (duration_ms, value, error, extra), sealed is not None, bool(has_key))


def counted(state: CallState) -> CallState:
    """Without a time to wait that says nothing any more: a store may keep it or not."""
    return state if state.state is State.PENDING and is_in_line(state) else replace(state, queue_until=None)


@pytest.fixture
def reader(ledger: Ledger) -> Reader:
    return Reader(ledger)


# --- every state a call can be in -----------------------------------------------------------------


class Stage:
    """A ledger on which calls are brought into a state, many at once. `store` is the node that writes afterwards."""

    def __init__(self, store: Store, make_store: Opening, clock: ManualClock) -> None:
        self.store, self.make_store, self.clock = store, make_store, clock

    async def begin(self, count: int, new: Callable[..., NewCall] = call, **changes: Any) -> list[int]:
        given = {"total_s": TOTAL_S, "run_s": RUN_S, "sealed": b"sealed", **changes}
        begun = await self.each([new(f"call-{number}", **given) for number in range(count)], self.store.begin)
        return [there(each).seq for each in begun]

    async def in_session(self, count: int, **changes: Any) -> list[int]:
        uses = [request(f"call-{number}", total_s=TOTAL_S, run_s=RUN_S, **changes) for number in range(count)]
        return [each.seq for each in await in_session(self.store, *uses)]

    async def claimed(self, count: int, **changes: Any) -> list[int]:
        seqs = await self.begin(count, worker_call, **changes)
        await self.store.claim(wanted(WORKER, limit=MANY))
        return seqs

    async def left(self, count: int, **changes: Any) -> list[int]:
        """Claimed, and given back."""
        seqs = await self.claimed(count, **changes)
        await self.each(seqs, self.leave)
        return seqs

    async def leave(self, seq: int) -> None:
        row = there(await self.store.row(seq))
        await self.store.leave(HandBack(DIRECT, row.request or "", WORKER, row.attempt))

    async def each(self, values: list[Any], do: Callable[[Any], Awaitable[Any]]) -> list[Any]:
        return await asyncio.gather(*map(do, values))

    async def another_node(self) -> None:
        """The one that began the calls is gone, and this is the next."""
        self.store = await self.make_store.instead_of(self.store, "b")


Prepare = Callable[[Stage, int], Coroutine[Any, Any, list[int]]]
STATES: dict[str, Prepare] = {}


def state(prepare: Prepare) -> Prepare:
    STATES[prepare.__name__.replace("_", " ")] = prepare
    return prepare


@state
async def runs_on_this_node(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.clock.advance(A_WHILE_S)
    return seqs


@state
async def runs_on_this_node_for_a_session(stage: Stage, count: int) -> list[int]:
    return await stage.in_session(count, queue="node")


@state
async def runs_on_this_node_and_asks(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, lambda seq: stage.store.ask(seq, 1, "name?", b"{}"))
    return seqs


@state
async def runs_on_this_node_past_its_time(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.clock.advance(TOTAL_S)
    return seqs


@state
async def ran_on_a_node_that_is_gone(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.another_node()
    return seqs


@state
async def asked_on_a_node_that_is_gone(stage: Stage, count: int) -> list[int]:
    seqs = await runs_on_this_node_and_asks(stage, count)
    await stage.another_node()
    return seqs


@state
async def was_handed_back_by_a_node(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, lambda seq: stage.store.hand_back(seq, 1))
    return seqs


@state
async def runs_on_this_node_for_the_second_time(stage: Stage, count: int) -> list[int]:
    seqs = await was_handed_back_by_a_node(stage, count)
    await stage.each(seqs, lambda seq: stage.store.restart(seq, 1))
    return seqs


@state
async def waits_for_a_yes(stage: Stage, count: int) -> list[int]:
    return await stage.begin(count, waiting_for=APPROVAL, queue_s=QUEUE_S)


@state
async def waited_too_long_for_a_yes(stage: Stage, count: int) -> list[int]:
    seqs = await waits_for_a_yes(stage, count)
    await stage.clock.advance(QUEUE_S)
    return seqs


@state
async def got_its_yes(stage: Stage, count: int) -> list[int]:
    seqs = await waits_for_a_yes(stage, count)
    await stage.each(seqs, lambda seq: stage.store.release_wait(Decision(seq, APPROVAL)))
    return seqs


@state
async def waits_for_an_account_before_it_began(stage: Stage, count: int) -> list[int]:
    seqs = await got_its_yes(stage, count)
    await stage.each(seqs, lambda seq: stage.store.hold(WaitForAccount(seq, 0, ACCOUNT, QUEUE_S)))
    return seqs


@state
async def waits_for_an_account_after_an_attempt(stage: Stage, count: int) -> list[int]:
    seqs = await was_handed_back_by_a_node(stage, count)
    await stage.each(seqs, lambda seq: stage.store.hold(WaitForAccount(seq, 1, ACCOUNT, QUEUE_S)))
    return seqs


@state
async def is_complete(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, lambda seq: stage.store.finish(seq, 1, DONE))
    return seqs


@state
async def failed(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, lambda seq: stage.store.finish(seq, 1, FAILED))
    return seqs


@state
async def was_cancelled(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, stage.store.cancel)
    return seqs


@state
async def ended_as_nobody_knows(stage: Stage, count: int) -> list[int]:
    seqs = await stage.begin(count)
    await stage.each(seqs, lambda seq: stage.store.finish(seq, 1, replace(UNKNOWN, duration_ms=7.0)))
    return seqs


@state
async def ended_as_nobody_knows_long_ago(stage: Stage, count: int) -> list[int]:
    seqs = await ended_as_nobody_knows(stage, count)
    await stage.clock.advance(TOTAL_S)
    return seqs


@state
async def waits_for_a_worker(stage: Stage, count: int) -> list[int]:
    return await stage.begin(count, worker_call, queue_s=QUEUE_S)


@state
async def waited_too_long_for_a_worker(stage: Stage, count: int) -> list[int]:
    seqs = await waits_for_a_worker(stage, count)
    await stage.clock.advance(QUEUE_S)
    return seqs


@state
async def a_worker_has_it(stage: Stage, count: int) -> list[int]:
    seqs = await stage.claimed(count)
    await stage.clock.advance(A_WHILE_S)
    return seqs


@state
async def a_worker_has_it_past_its_lease(stage: Stage, count: int) -> list[int]:
    seqs = await stage.claimed(count)
    await stage.clock.advance(TERMS.lease_s)
    return seqs


@state
async def a_worker_has_what_must_not_run_twice_past_its_lease(stage: Stage, count: int) -> list[int]:
    seqs = await stage.claimed(count, on_lost="unknown")
    await stage.clock.advance(TERMS.lease_s)
    return seqs


@state
async def a_worker_has_it_past_its_run(stage: Stage, count: int) -> list[int]:
    seqs = await stage.claimed(count, run_s=TERMS.lease_s / 2)
    await stage.clock.advance(TERMS.lease_s / 2)
    return seqs


@state
async def a_worker_gave_it_back(stage: Stage, count: int) -> list[int]:
    return await stage.left(count, queue_s=QUEUE_S)


@state
async def a_worker_has_it_for_the_second_time(stage: Stage, count: int) -> list[int]:
    seqs = await stage.left(count)
    await stage.store.claim(wanted(WORKER, limit=MANY))
    return seqs


@state
async def a_worker_answered_it(stage: Stage, count: int) -> list[int]:
    seqs = await stage.claimed(count)

    async def done(seq: int) -> None:
        row = there(await stage.store.row(seq))
        await stage.store.answer(Answer(DIRECT, row.request or "", WORKER, DONE, b"body", 1))

    await stage.each(seqs, done)
    return seqs


@state
async def waits_for_the_owner_of_its_session(stage: Stage, count: int) -> list[int]:
    return await stage.in_session(count)


@state
async def the_owner_of_its_session_has_it(stage: Stage, count: int) -> list[int]:
    seqs = await stage.in_session(count)
    await stage.store.beat([HeartbeatWrite("s", f"call-{number}", ADA) for number in range(count)])
    return seqs


# --- every write ----------------------------------------------------------------------------------


def every_write(before: CallState, node: str) -> Iterator[Write]:
    """About a call in this state: with the attempt that it has, and with those before and after."""
    seq, attempts = before.seq, (before.attempt - 1, before.attempt, before.attempt + 1)
    for attempt in attempts:
        for ending in (DONE, FAILED, RETRY, UNKNOWN):
            yield Finish(seq, attempt, node, ending)
        yield NodeHandBack(seq, attempt, node)
        yield Ask(seq, attempt, node)
        yield Restart(seq, attempt, node)
        for ending in (FAILED, UNKNOWN):
            yield GiveUp(seq, attempt, node, ending)
        for held in (None, LACKING, UNKNOWN):
            yield WaitForAccount(seq, attempt, ACCOUNT, 60.0, held)
    for waited in (APPROVAL, ACCOUNT):
        yield Decision(seq, waited)
        yield Decision(seq, waited, queue_s=60.0)
        yield Decision(seq, waited, queue_s=60.0, then=APPROVAL)
        yield Decision(seq, waited, REJECTED)
    for settled in (None, DONE, FAILED):
        yield Resolve(seq, settled)
    yield Cancel(seq)
    yield QuestionsClosed(seq)
    if before.session is not None:
        yield from every_request_write(before, (None, *attempts))


def every_request_write(before: CallState, attempts: tuple[int | None, ...]) -> Iterator[Write]:
    named = before.session or "", before.request or ""
    workers = (WORKER, OTHER_WORKER, SHARER, HEIR, ANEW)
    people = workers if before.queue == "worker" else (ADA, SECOND, BOB, STRANGER, WORKER)
    for who in people:
        for attempt in attempts:
            yield HeartbeatWrite(*named, who, attempt)
            yield HeartbeatWrite(*named, who, attempt, 77.0, b'{"done":1}')
            yield HeartbeatWrite(*named, who, attempt, claims=False)
            yield HandBack(*named, who, attempt)
            for ending, digest in ((DONE, b"body"), (FAILED, b"body"), (RETRY, b"other"), (UNTIMED, b"body")):
                yield Answer(*named, who, ending, digest, attempt)


async def make(store: Store, write: Write) -> Judged | Verdict | bool | None:
    """What the store says of it: the verdict, or whether it was accepted. None: it says nothing."""
    match write:
        case HeartbeatWrite():
            (verdict,) = await store.beat([write])
            return verdict
        case Answer():
            return await store.answer(write)
        case HandBack():
            return await store.leave(write)
        case Cancel():
            return await store.cancel(write.seq)
        case Decision():
            return await store.release_wait(write)
        case WaitForAccount():
            return await store.hold(write)
        case Finish():
            return await store.finish(write.seq, write.attempt, write.ending) is None
        case Restart():
            return await store.restart(write.seq, write.attempt) == write.attempt + 1
        case GiveUp():
            return await store.give_up(write.seq, write.attempt, write.ending)
        case Resolve():
            return await store.resolve(write.seq, write.ending) is not None
        case NodeHandBack():
            await store.hand_back(write.seq, write.attempt)
        case Ask():
            await store.ask(write.seq, write.attempt, "name?", b"{}")
        case QuestionsClosed():
            await store.answer_questions(write.seq, {"name?": b"1"})
    return None


# --- the rows after are those that `judge` says ---------------------------------------------------


REQUEST = CallState(1, "", "", "s", "r", "", "session", "", None, 0.0, None, None, State.PENDING)
COUNT = len(list(every_write(REQUEST, "a")))


FEW = 8
"""Enough for what is the same for every call in a state."""


class Prepared(NamedTuple):
    """Calls in one of the states, and the node that writes about them."""

    store: Store
    seqs: list[int]


Preparing = Callable[[int], Awaitable[Prepared]]
"""Makes so many of them."""


@pytest.fixture(params=STATES)
def prepare(request: pytest.FixtureRequest, store: Store, make_store: Opening, clock: ManualClock) -> Preparing:
    async def prepare(count: int) -> Prepared:
        stage = Stage(store, make_store, clock)
        seqs = await STATES[request.param](stage, count)
        return Prepared(stage.store, seqs)

    return prepare


async def test_a_write_does_to_a_call_what_judge_says(prepare: Preparing, clock: ManualClock, reader: Reader) -> None:
    await compare(await prepare(COUNT), clock, reader, is_held=False)


@pytest.mark.needs_nodes
async def test_a_write_about_what_another_node_runs_does_what_judge_says(
    store: Store, make_store: Opening, clock: ManualClock, reader: Reader
) -> None:
    stage = Stage(store, make_store, clock)
    seqs = await stage.begin(COUNT)
    other = await make_store("b")
    assert await other.unstarted(MANY) == []
    await compare(Prepared(other, seqs), clock, reader, is_held=True)


async def compare(prepared: Prepared, clock: ManualClock, reader: Reader, *, is_held: bool) -> None:
    """Makes each write about a call of its own, all at the same instant."""
    store, before = prepared.store, await reader.rows()
    made: list[tuple[int, Write]] = []
    for place, seq in enumerate(prepared.seqs):
        made += [(seq, write) for write in islice(every_write(before[seq].state, store.node), place, place + 1)]
    said = await asyncio.gather(*(make(store, write) for _, write in made))
    after = await reader.rows()
    for (seq, write), verdict in zip(made, said, strict=True):
        state = before[seq].state
        if isinstance(write, RequestWrite) and not write.who.may_touch(state):
            assert (verdict, after[seq]) == (None, before[seq]), "it looks like what is not there"
            continue
        judged = judge(state, write, clock.now, TERMS, is_held=is_held)
        assert after[seq] == expected(before[seq], judged), write
        if isinstance(verdict, Judged):
            assert (verdict.reason, counted(verdict.standing)) == (judged.reason, counted(judged.standing)), write
            assert verdict.ending == judged.ending, write
        elif isinstance(verdict, Verdict):
            assert verdict == verdict_of(judged), write
        elif verdict is not None:
            assert verdict is (judged.reason is None), write


async def test_what_is_unstarted_and_what_time_does_to_it_is_what_judge_says(
    prepare: Preparing, clock: ManualClock, reader: Reader
) -> None:
    store, _ = await prepare(FEW)
    before = await reader.rows()
    nobodys = [seq for seq, row in before.items() if is_unstarted(row.state, store.node, is_held=False)]
    assert [each.seq for each in await store.unstarted(MANY)] == nobodys
    assert await reader.rows() == before, "that was a question"
    while await store.expire(MANY):
        pass
    after = await reader.rows()
    for seq, row in before.items():
        settled = settle(row.state, clock.now, TERMS)
        assert after[seq] == (row if settled is None else expected(row, settled))


async def test_going_back_to_a_copy_is_what_judge_says(prepare: Preparing, clock: ManualClock, reader: Reader) -> None:
    store, _ = await prepare(FEW)
    await clock.advance(SINCE + 777.0)
    before, alive = await reader.rows(), fresh_numbers(clock.now).attempt
    went = await store.go_back(())
    after = await reader.rows()
    judged = {seq: judge(row.state, GoBack(seq, alive), clock.now, TERMS) for seq, row in before.items()}
    assert after == {seq: expected(row, judged[seq]) for seq, row in before.items()}
    ends = [each.standing.state in ENDED for each in judged.values() if each.reason is None]
    assert went == WentBack(ends.count(True), ends.count(False))


@pytest.mark.parametrize(
    "who", [WORKER, ADA, HEIR, ANEW], ids=["a worker", "the owner", "who took the name", "who offers it anew"]
)
async def test_a_claim_is_what_judge_says(
    prepare: Preparing, clock: ManualClock, reader: Reader, who: Claimant
) -> None:
    """Who asks for work is given what waits, and what is overdue is passed by or settled: nobody is given it."""
    prepared = await prepare(FEW)
    before = await reader.rows()
    claims = await prepared.store.claim(wanted(who, limit=MANY))
    assert claims == [await prepared.store.row(each.seq) for each in claims]
    given = {each.seq for each in claims}
    after = await reader.rows()
    for seq, row in before.items():
        settled = settle(row.state, clock.now, TERMS)
        waits = row.state.state is State.PENDING and row.state.waiting_for is None and who.may_touch(row.state)
        assert (seq in given) is (waits and settled is None)
        if seq in given:
            taken = Judged(claimed(row.state, who.holder, clock.now, TERMS))
            assert after[seq] == expected(row, taken)
        elif after[seq] != row:
            assert settled is not None
            assert after[seq] == expected(row, settled)


def expected(before: Row, judged: Judged) -> Row:
    """The row after what was judged is saved."""
    if not judged.changed:
        return before
    after, ending = counted(judged.standing), judged.ending
    if ending is None:
        is_reopened = before.state.state in ENDED
        return before._replace(state=after, outcome=(None,) * 4 if is_reopened else before.outcome)
    took = ending.duration_ms or before.outcome[0] or 0.0
    has_key = before.has_key and not frees_key(after.session, ending)
    return Row(after, (took, ending.value, ending.error, ending.extra), is_sealed=False, has_key=has_key)
