"""What a result has beside its value is kept, shown, charged for and removed with it."""

import asyncio
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from toolyard.model.errors import ToolError
from toolyard.model.lifecycle import State
from toolyard.model.record import Ending, Ran
from toolyard.store import blocks
from toolyard.store.contract import Store
from toolyard.store.values import Filter

from .calls import ADA, DONE, EXTRA, FAILED, KEY, LARGE, UNKNOWN, answer, call, in_session, ran, request, there, wanted
from .ledgers import RETENTION, ManualClock, Opening
from .test_holdings import CHARGE, stored

LARGE_EXTRA = b'{"content":[%b]}' % LARGE
ENDINGS = [DONE, replace(FAILED, extra=EXTRA)]
IDS = ["beside a value", "beside an error"]


def rich(call_id: str, extra: bytes, outcome: int | ToolError = 15, input: dict[str, Any] | None = None) -> Ran:
    """A call without a key that has run."""
    made = ran(call_id, outcome, input)
    made[2].extra = Raw(extra)
    return made


@pytest.mark.parametrize("ending", ENDINGS, ids=IDS)
@pytest.mark.parametrize("extra", [EXTRA, LARGE_EXTRA], ids=["small", "large"])
async def test_it_is_kept_as_it_was_and_told_again_after_a_restart(
    store: Store, make_store: Opening, ending: Ending, extra: bytes
) -> None:
    begun = await store.begin(call())
    assert await store.finish(begun.seq, 1, replace(ending, extra=extra)) is None
    assert there(await store.row(begun.seq)).extra == extra
    later = await make_store.instead_of(store, "b")
    known = there(there(await later.find(KEY)).known)
    assert (known.is_cut, known.extra) == ((False, EXTRA) if extra is EXTRA else (True, None))
    outcome = there(await later.row(begun.seq)).outcome()
    assert (bytes(there(outcome.extra)), outcome.error is None) == (extra, ending.error is None)


@pytest.mark.needs_nodes
async def test_it_is_told_at_another_node(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, DONE)
    assert there(there((await other.begin(call())).known).extra) == EXTRA


async def test_of_many_that_end_at_once_each_keeps_its_own(store: Store) -> None:
    begun = [await store.begin(call(f"call-{number}")) for number in range(20)]
    endings = [replace(DONE, extra=b'{"meta":{"of":%d}}' % n if n % 2 else None) for n in range(20)]
    await asyncio.gather(*(store.finish(each.seq, 1, end) for each, end in zip(begun, endings, strict=True)))
    assert [there(await store.row(each.seq)).extra for each in begun] == [each.extra for each in endings]


async def test_who_lost_is_shown_the_winners(store: Store) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, replace(DONE, extra=LARGE_EXTRA))
    assert there(await store.finish(begun.seq, 1, FAILED)).extra == LARGE_EXTRA


async def test_a_call_that_ended_before_it_began_keeps_it(store: Store) -> None:
    begun = await store.begin(call(ending=replace(FAILED, extra=EXTRA)))
    assert there(await store.row(begun.seq)).extra == EXTRA


async def test_what_is_answered_and_what_a_person_settles_keeps_it(store: Store) -> None:
    (asked,) = await in_session(store, request())
    (claimed,) = await store.claim(wanted(ADA))
    await store.answer(answer(ADA, claimed.attempt, ending=DONE))
    assert there(await store.row(asked.seq)).extra == EXTRA
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, replace(UNKNOWN, extra=EXTRA))
    assert there(await store.resolve(begun.seq, None)).extra is None, "it is to be run once more"
    restarted = there(await store.restart(begun.seq, 1))
    await store.finish(begun.seq, restarted, UNKNOWN)
    assert there(await store.resolve(begun.seq, DONE)).extra == EXTRA


@pytest.mark.parametrize("outcome", [15, ToolError("no")], ids=IDS)
@pytest.mark.parametrize("extra", [EXTRA, LARGE_EXTRA], ids=["in a line", "in a row"])
async def test_a_call_that_has_run_already_is_recorded_with_it(
    store: Store, outcome: int | ToolError, extra: bytes
) -> None:
    assert await store.record([rich("a", extra, outcome), ran("b", 1)]) == 0
    assert there(await store.get("default", "ada", "a")).extra == extra
    assert there(await store.get("default", "ada", "b")).extra is None
    listed = {each.key.call_id: each for each in await store.listed(Filter("default", "ada"))}
    assert listed["a"].is_cut == (extra is LARGE_EXTRA)


async def test_a_line_is_small_with_it_or_no_line(store: Store, clock: ManualClock) -> None:
    too_much = b'{"meta":{"a":"%b"}}' % (b"x" * blocks.SMALL)
    lines = blocks.CallLines()
    assert lines.add(*rich("a", EXTRA), clock.now)
    assert not lines.add(*rich("b", too_much), clock.now)
    assert len(lines.lines) == 1


async def test_merged_and_erased_blocks_keep_what_is_left(store: Store, clock: ManualClock) -> None:
    extra = b'{"meta":{"a":"%b"}}' % (b"x" * 2000)
    for number in range(10):
        of_another = rich(f"other-{number}", extra)
        of_another[1].caller = replace(of_another[1].caller, user_id="vic")
        await store.record([rich(f"{number}", extra), of_another])
    charged = await stored(store)
    await clock.advance(60.0)
    assert await store.merge() == 9
    assert await stored(store) == charged
    assert await store.erase(None, "vic") == 10
    assert await stored(store) == charged // 2
    left = await store.listed(Filter(None))
    assert [(each.key.call_id, each.extra) for each in left] == [(f"{number}", extra) for number in range(9, -1, -1)]


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 2000, 300_000])
async def test_it_is_charged_for_as_a_part_of_the_result(store: Store, size: int) -> None:
    """As soon as both together are large."""
    extra = b'{"meta":{"a":"%b"}}' % (b"x" * size)
    value = b'"%b"' % (b"y" * 1000)
    begun = await store.begin(call(input=b"{}"))
    await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.5, value=value, extra=extra))
    assert await stored(store) == CHARGE + 2 + len(value) + len(extra)


async def test_it_is_charged_for_beside_an_error_and_no_longer_when_that_is_taken_back(store: Store) -> None:
    begun = await store.begin(call(input=b"{}"))
    await store.finish(begun.seq, 1, replace(UNKNOWN, extra=LARGE_EXTRA))
    assert await stored(store) == CHARGE + 2 + len(LARGE_EXTRA) + len(there(UNKNOWN.error))
    await store.resolve(begun.seq, None)
    assert await stored(store) == CHARGE + 2


@pytest.mark.parametrize("size", [2000, 300_000])
async def test_a_call_that_has_run_already_is_charged_for_it(store: Store, size: int) -> None:
    extra = b'{"meta":{"a":"%b"}}' % (b"x" * size)
    await store.record([rich("a", extra)])
    assert await stored(store) == CHARGE + len(b'{"a":1}') + len(b"15") + len(extra)


async def test_it_counts_among_what_is_read_at_once(store: Store) -> None:
    await in_session(store, request("a"), request("b"), request("c"))
    for claimed in await store.claim(wanted(ADA)):
        await store.answer(
            answer(ADA, claimed.attempt, replace(DONE, extra=LARGE_EXTRA), request=claimed.request or "")
        )
    assert len(await store.session_requests("s", None, most_bytes=len(LARGE_EXTRA) + 100)) == 2


# --- it goes with the call ------------------------------------------------------------------------


async def test_nothing_is_left_of_it_when_its_call_is_swept_or_erased(store: Store, clock: ManualClock) -> None:
    for number, user in enumerate(("uma", "vic")):
        begun = await store.begin(call(f"call-{number}", user_id=user))
        await store.finish(begun.seq, 1, replace(DONE, extra=LARGE_EXTRA))
    assert await store.erase(None, "uma") == 1
    assert await blobs(store) == (0 if store.shared else 1)
    assert [each.user_id for each in await store.listed(Filter(None))] == ["vic"]
    await clock.advance(RETENTION.calls_s + 1)
    await store.sweep(100)
    assert await blobs(store) == 0
    assert await stored(store) == 0


async def blobs(store: Any) -> int:
    """How many things are kept out of their rows. PostgreSQL does that by itself."""
    if store.shared:
        return 0
    ((count,),) = await store._writer.write(lambda cursor: cursor.execute("SELECT count(*) FROM blobs").fetchall())
    return int(count)


@pytest.mark.parametrize("who", [("default", "bob"), ("other", "ada")])
async def test_another_callers_is_not_there(store: Store, who: tuple[str, str]) -> None:
    begun = await store.begin(call())
    await store.finish(begun.seq, 1, DONE)
    await store.record([rich("a", EXTRA)])
    assert await store.listed(Filter(*who)) == []
    assert await store.get(*who, "a") is None
    assert await store.get(*who, "call-1") is None
