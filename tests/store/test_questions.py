"""Running calls ask their clients. A question is there until it is answered, and its first answer stays, whichever
attempt asked and whichever node runs it; a call shows that it waits."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from tests.postgres import fetch
from toolyard.model.lifecycle import State
from toolyard.store.contract import Store
from toolyard.store.hints import Topic
from toolyard.store.values import StoredQuestion

from .calls import DONE, UNKNOWN, WORKER, call, in_session, request, there, wanted, worker_call
from .ledgers import RETENTION, ManualClock, Opening
from .test_hints import Heard

SURE, HOW_MANY = b'{"message":"Sure?"}', b'{"message":"How many?"}'


async def asking(store: Store, *names: str, total_s: float | None = None) -> int:
    """A call that runs here and has asked these."""
    begun = await store.begin(call(total_s=total_s))
    for name in names:
        assert await store.ask(begun.seq, 1, name, SURE) is None
    return begun.seq


async def waits_for(store: Store, seq: int) -> str | None:
    return there(await store.row(seq)).waiting_for


async def named(store: Store, seq: int) -> dict[str, bytes | None]:
    return {each.name: each.answer for each in await store.questions(seq)}


async def test_a_call_waits_from_its_question_to_the_answer(store: Store) -> None:
    seq = await asking(store)
    assert await waits_for(store, seq) is None
    assert await store.ask(seq, 1, "sure", SURE) is None
    row = there(await store.row(seq))
    assert (row.state, row.attempt, row.holder, row.waiting_for) == (State.PROCESSING, 1, "a", "answer")
    assert await store.questions(seq) == [StoredQuestion("sure", SURE)]
    await store.answer_questions(seq, {"sure": b"true"})
    assert await store.questions(seq) == [StoredQuestion("sure", SURE, b"true")]
    row = there(await store.row(seq))
    assert (row.state, row.attempt, row.holder, row.waiting_for) == (State.PROCESSING, 1, "a", None)
    assert await store.finish(seq, 1, DONE) is None


async def test_it_waits_until_the_last_is_answered(store: Store) -> None:
    seq = await asking(store, "one", "two", "three")
    await store.answer_questions(seq, {"two": b"2"})
    assert await waits_for(store, seq) == "answer"
    await store.answer_questions(seq, {"one": b"1", "three": b"3"})
    assert await waits_for(store, seq) is None
    assert await named(store, seq) == {"one": b"1", "two": b"2", "three": b"3"}


async def test_questions_come_in_the_order_they_were_asked(store: Store) -> None:
    names = ["zebra", "apple", "mango", "berry"]
    seq = await asking(store, *names, "apple")
    assert list(await named(store, seq)) == names
    await store.answer_questions(seq, {"berry": b"1", "zebra": b"2"})
    assert list(await named(store, seq)) == names


async def test_questions_asked_at_the_same_instant_are_all_there_and_have_one_order(store: Store) -> None:
    seq = await asking(store)
    names = [f"q{number}" for number in range(20)]
    await asyncio.gather(*(store.ask(seq, 1, name, SURE) for name in [*names, *names]))
    first = await store.questions(seq)
    assert sorted(each.name for each in first) == sorted(names)
    assert await store.questions(seq) == first


async def test_what_was_asked_first_under_a_name_stays(store: Store) -> None:
    seq = await asking(store, "sure")
    assert await store.ask(seq, 1, "sure", HOW_MANY) is None
    assert await store.questions(seq) == [StoredQuestion("sure", SURE)]


async def test_the_first_answer_stays(store: Store) -> None:
    seq = await asking(store, "sure", "more")
    for answer in (b"true", b"true", b"false"):
        await store.answer_questions(seq, {"sure": answer})
    assert await named(store, seq) == {"sure": b"true", "more": None}
    await asyncio.gather(*(store.answer_questions(seq, {"more": b"%d" % number}) for number in range(10)))
    taken = (await named(store, seq))["more"]
    await store.answer_questions(seq, {"more": b'"late"', "sure": b'"late"'})
    assert await named(store, seq) == {"sure": b"true", "more": taken}


async def test_what_nobody_asked_is_ignored(store: Store) -> None:
    seq = await asking(store, "sure")
    await store.answer_questions(seq, {"other": b"1", "Sure": b"2", "": b"3"})
    await store.answer_questions(seq, {})
    assert await named(store, seq) == {"sure": None}
    assert await waits_for(store, seq) == "answer"
    assert await store.ask(seq, 1, "other", SURE) is None, "nobody answers in advance"
    await store.answer_questions(12345, {"sure": b"1"})
    assert await store.questions(12345) == []


async def test_calls_do_not_answer_for_each_other(store: Store) -> None:
    seq = await asking(store, "sure")
    other = await store.begin(call("other"))
    await store.ask(other.seq, 1, "sure", SURE)
    await store.answer_questions(seq, {"sure": b"1"})
    assert await named(store, other.seq) == {"sure": None}
    assert await waits_for(store, other.seq) == "answer"


async def test_what_was_answered_is_not_asked_again(store: Store) -> None:
    seq = await asking(store, "sure")
    await store.answer_questions(seq, {"sure": b"true"})
    assert await store.ask(seq, 1, "sure", SURE) == b"true"
    assert await waits_for(store, seq) is None
    await store.ask(seq, 1, "more", SURE)
    assert await store.ask(seq, 1, "sure", SURE) == b"true"
    assert await waits_for(store, seq) == "answer", "for the other"


# --- who may ask -----------------------------------------------------------------------------------


async def nothing_happens(store: Store, seq: int, attempt: int) -> None:
    before, asked = await store.row(seq), await store.questions(seq)
    with Heard(store, (Topic.QUESTION, seq)) as heard:
        assert await store.ask(seq, attempt, "late", SURE) is None
    assert await store.row(seq) == before
    assert await store.questions(seq) == asked
    assert not heard


@pytest.mark.parametrize("attempt", [0, 2])
async def test_only_the_attempt_that_holds_the_call_asks(store: Store, attempt: int) -> None:
    await nothing_happens(store, await asking(store, "sure"), attempt)


async def test_who_handed_a_call_back_or_lost_it_asks_nothing_more(store: Store) -> None:
    seq = await asking(store, "sure")
    await store.answer_questions(seq, {"sure": b"1"})
    await store.hand_back(seq, 1)
    await nothing_happens(store, seq, 1)
    assert await store.restart(seq, 1) == 2
    await nothing_happens(store, seq, 1)
    assert await store.ask(seq, 1, "sure", SURE) is None, "and is told nothing"


async def test_another_node_does_not_ask(store: Store, make_store: Opening) -> None:
    seq = await asking(store)
    await nothing_happens(await make_store.instead_of(store, "b"), seq, 1)


@pytest.mark.parametrize("how", ["finish", "cancel"])
async def test_what_has_ended_asks_nothing(store: Store, how: str) -> None:
    seq = await asking(store)
    await (store.finish(seq, 1, DONE) if how == "finish" else store.cancel(seq))
    await nothing_happens(store, seq, 1)


async def test_calls_that_others_work_on_do_not_ask_so(store: Store) -> None:
    begun = await store.begin(worker_call())
    await nothing_happens(store, begun.seq, 0)
    await store.claim(wanted(WORKER))
    await nothing_happens(store, begun.seq, 1)
    await nothing_happens(store, 12345, 1)


@pytest.mark.kind("postgres")
@pytest.mark.parametrize("how", ["ask", "answer"])
async def test_who_comes_while_a_call_ends_comes_too_late(store: Store, postgres_url: str, how: str) -> None:
    seq = await asking(store, "sure")
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await connection.execute("UPDATE calls SET state = 'ERROR', code = 'cancelled', waiting_for = NULL")
        late = store.ask(seq, 1, "late", SURE) if how == "ask" else store.answer_questions(seq, {"sure": b"1"})
        waiting = asyncio.ensure_future(late)
        await asyncio.wait([waiting], timeout=0.3)
    await waiting
    await connection.close()
    assert await named(store, seq) == {"sure": None}
    assert await waits_for(store, seq) is None


# --- a call that waits for an answer ends like any other --------------------------------------------


async def finished(store: Store, seq: int, clock: ManualClock) -> None:
    assert await store.finish(seq, 1, DONE) is None


async def cancelled(store: Store, seq: int, clock: ManualClock) -> None:
    assert there(await store.cancel(seq)).reason is None


async def expired(store: Store, seq: int, clock: ManualClock) -> None:
    await clock.advance(20)
    assert await store.expire(10) == 1


async def resolved(store: Store, seq: int, clock: ManualClock) -> None:
    await store.finish(seq, 1, UNKNOWN)
    assert await store.resolve(seq, DONE) is not None


@pytest.mark.parametrize("end", [finished, cancelled, expired, resolved])
async def test_what_has_ended_waits_for_nothing_and_is_not_answered(
    store: Store, clock: ManualClock, end: Callable[[Store, int, ManualClock], Awaitable[None]]
) -> None:
    seq = await asking(store, "sure", total_s=20.0)
    await end(store, seq, clock)
    row = there(await store.row(seq))
    assert row.finished_at is not None
    assert row.waiting_for is None
    with Heard(store, (Topic.QUESTION, seq)) as heard:
        await store.answer_questions(seq, {"sure": b"1"})
    assert not heard
    assert await named(store, seq) == {"sure": None}


async def test_a_lost_call_that_waited_is_given_up(store: Store, make_store: Opening) -> None:
    seq = await asking(store, "sure")
    later = await make_store.instead_of(store, "b")
    assert [each.seq for each in await later.unstarted(10)] == [seq]
    assert await later.give_up(seq, 1, UNKNOWN)
    row = there(await later.row(seq))
    assert (row.code, row.waiting_for, row.losses) == ("outcome_unknown", None, 1)


# --- and is run again like any other ----------------------------------------------------------------


async def lost(store: Store, make_store: Opening, seq: int) -> Store:
    later = await make_store.instead_of(store, "b")
    assert [each.seq for each in await later.unstarted(10)] == [seq]
    return later


async def handed_back(store: Store, make_store: Opening, seq: int) -> Store:
    await store.hand_back(seq, 1)
    assert [each.seq for each in await store.unstarted(10)] == [seq]
    return store


@pytest.mark.parametrize("leave", [lost, handed_back])
async def test_run_again_it_finds_what_was_answered(
    store: Store, make_store: Opening, leave: Callable[[Store, Opening, int], Awaitable[Store]]
) -> None:
    seq = await asking(store, "before", "meanwhile", "after")
    await store.answer_questions(seq, {"before": b"1"})
    store = await leave(store, make_store, seq)
    await store.answer_questions(seq, {"meanwhile": b"2"})
    assert await store.restart(seq, 1) == 2
    assert await waits_for(store, seq) is None, "it has not asked yet"
    assert await store.ask(seq, 2, "before", SURE) == b"1"
    assert await store.ask(seq, 2, "meanwhile", SURE) == b"2"
    assert await waits_for(store, seq) is None
    assert await store.ask(seq, 2, "after", SURE) is None
    assert await waits_for(store, seq) == "answer"
    assert await named(store, seq) == {"before": b"1", "meanwhile": b"2", "after": None}
    await store.answer_questions(seq, {"after": b"3"})
    assert await waits_for(store, seq) is None
    assert await store.finish(seq, 2, DONE) is None


async def test_what_is_handed_back_waits_for_nothing(store: Store) -> None:
    seq = await asking(store, "sure")
    await store.hand_back(seq, 1)
    row = there(await store.row(seq))
    assert (row.state, row.waiting_for) == (State.PENDING, None)
    assert await named(store, seq) == {"sure": None}


async def test_what_is_run_once_more_finds_its_answers(store: Store) -> None:
    seq = await asking(store, "sure")
    await store.answer_questions(seq, {"sure": b"1"})
    await store.finish(seq, 1, UNKNOWN)
    await store.resolve(seq, None)
    assert await store.restart(seq, 1) == 2
    assert await store.ask(seq, 2, "sure", SURE) == b"1"


async def test_a_request_of_a_session_asks_too(store: Store) -> None:
    (begun,) = await in_session(store, request(queue="node"))
    assert await store.ask(begun.seq, 1, "sure", SURE) is None
    assert [each.waiting_for for each in await store.session_requests("s", None)] == ["answer"]
    await store.answer_questions(begun.seq, {"sure": b"1"})
    assert await store.finish(begun.seq, 1, DONE) is None


# --- what is told, and what is removed --------------------------------------------------------------


async def test_who_watches_a_call_is_told_of_questions_and_answers(store: Store) -> None:
    seq = await asking(store)
    watched = (Topic.QUESTION, seq)
    with Heard(store, watched) as heard:
        await store.ask(seq, 1, "sure", SURE)
    assert heard, "asked"
    with Heard(store, watched) as heard:
        await store.answer_questions(seq, {"sure": b"1"})
    assert heard, "answered"
    with Heard(store, watched) as heard:
        await store.answer_questions(seq, {"sure": b"2", "other": b"3"})
        await store.ask(seq, 1, "sure", SURE)
    assert not heard, "nothing changed"


@pytest.mark.needs_nodes
@pytest.mark.parametrize("told", [True, False], ids=["by a notification", "by looking"])
async def test_who_watches_on_another_node_hears_it_too(
    store: Store, make_store: Opening, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    other = await make_store("b")
    silent = "toolyard.store.postgres.notifications." + ("Poller._look" if told else "payloads_of")
    monkeypatch.setattr(silent, nothing_seen if told else nothing_sent)
    seq = await asking(store)
    await asyncio.sleep(0.5)  # until a look that had begun is over, and the listener listens
    with other.hints.waiting(Topic.QUESTION, seq) as bell:
        assert await bell.wait(1.0) is not told, "the first look counts"
        await store.ask(seq, 1, "sure", SURE)
        assert await bell.wait(10)
        await store.answer_questions(seq, {"sure": b"1"})
        assert await bell.wait(10)
        assert not await bell.wait(0.5), "nothing changed"
        await store.ask(seq, 1, "more", SURE)
        assert await bell.wait(10)
        await store.hand_back(seq, 1)
        await store.restart(seq, 1)
        while await bell.wait(0.5):
            pass
        await store.ask(seq, 2, "more", SURE)
        assert await bell.wait(10), "asked again"


async def nothing_seen(poller: object, looks: int) -> None: ...


def nothing_sent(node: str, told: object) -> list[str]:
    return []


async def test_questions_and_answers_go_with_their_call(store: Store, clock: ManualClock) -> None:
    seq = await asking(store, "sure", "more")
    await store.answer_questions(seq, {"sure": b"1"})
    await store.finish(seq, 1, DONE)
    await clock.advance(RETENTION.calls_s + 1)
    kept = await store.begin(call("kept"))
    await store.ask(kept.seq, 1, "sure", SURE)
    await store.answer_questions(kept.seq, {"sure": b"2"})
    assert await store.sweep(10) == 1
    assert await store.questions(seq) == []
    assert await named(store, kept.seq) == {"sure": b"2"}


async def test_a_call_finds_no_answers_of_one_that_was_removed(store: Store, clock: ManualClock) -> None:
    """Even where it has the number of that one."""
    seq = await asking(store, "sure")
    await store.answer_questions(seq, {"sure": b"1"})
    await store.finish(seq, 1, DONE)
    await clock.advance(RETENTION.calls_s + 1)
    assert await store.sweep(10) == 1
    begun = await store.begin(call("next"))
    assert await store.ask(begun.seq, 1, "sure", SURE) is None


@pytest.mark.kind("postgres")
async def test_nothing_of_a_call_that_was_removed_is_left_behind(
    store: Store, postgres_url: str, clock: ManualClock
) -> None:
    begun = await store.begin(call())
    await store.ask(begun.seq, 1, "sure", SURE)
    await store.answer_questions(begun.seq, {"sure": b"1"})
    await store.add_call_events([(begun.seq, 1, b"x")])
    await store.finish(begun.seq, 1, DONE)
    await clock.advance(RETENTION.calls_s + 1)
    assert await store.sweep(10) == 1
    for table in ("questions", "answers", "call_events"):
        assert await fetch(postgres_url, f"SELECT seq FROM {table}") == []
