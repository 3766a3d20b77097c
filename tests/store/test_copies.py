"""A ledger that went back to a copy of itself: what is numbered from then on never had its number, keys stay taken, and
nothing goes on that may have been done since."""

import msgspec
import pytest

from toolyard.model.lifecycle import State, WaitingFor
from toolyard.store.contract import Store
from toolyard.store.fresh_numbers import SINCE, fresh_numbers
from toolyard.store.values import Note, StoreInUse, WentBack

from .calls import KEY, SECOND, WORKER, answer, beat, call, in_session, request, there, wanted, worker_call
from .ledgers import ManualClock, Opening

DAY = 86400.0


async def test_no_number_is_given_again(store: Store, clock: ManualClock) -> None:
    before = there(await store.begin(call("before"))).seq
    await clock.advance(SINCE + 600 * DAY)
    await store.go_back(())
    first = there(await store.begin(call("first"))).seq
    assert before < fresh_numbers(clock.now).call < first
    await clock.advance(1.0)
    await store.go_back(())
    assert fresh_numbers(clock.now).call < there(await store.begin(call("next"))).seq


async def test_numbers_go_on_where_it_is_known_how_far_they_had_come(store: Store, clock: ManualClock) -> None:
    await store.begin(call("before"))
    await store.go_back((), last_number=70)
    assert there(await store.begin(call("after"))).seq == 71
    await store.go_back((), last_number=3)
    assert there(await store.begin(call("later"))).seq == 72


async def test_what_waited_for_a_worker_is_given_to_none_and_keeps_its_key(store: Store) -> None:
    await store.begin(worker_call(on_lost="unknown"))
    assert await store.go_back(()) == WentBack(unknown=1, going_on=0)
    assert await store.claim(wanted(WORKER)) == []
    known = there(there(await store.find(KEY)).known)
    assert (known.state, known.code, known.effects) == (State.ERROR, "outcome_unknown", "unknown")
    assert await store.go_back(()) == WentBack(unknown=0, going_on=0), "it can be done twice"


async def test_a_worker_of_before_loses_to_whoever_has_the_call_now(store: Store, clock: ManualClock) -> None:
    """Also after the second time that the ledger goes back to the same copy."""
    await store.begin(worker_call())
    await clock.advance(SINCE + 600 * DAY)
    given = set[int]()
    for _ in range(2):
        await clock.advance(5.0)
        assert await store.go_back(()) == WentBack(unknown=0, going_on=1)
        (claim,) = await store.claim(wanted(WORKER))
        given.add(claim.attempt)
        late = answer(WORKER, 1, request=there(claim.request), session=there(claim.session))
        assert there(await store.answer(late)).reason == "stale_attempt"
    assert len(given) == 2


async def test_who_has_heard_of_events_since_hears_of_all_that_come(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    heard = [event.number for event in await store.events("s", 0, 10)][-1] + 5
    await clock.advance(SINCE + 600 * DAY)
    await store.go_back(())
    await store.beat([beat(SECOND)])
    told = [msgspec.json.decode(event.data) for event in await store.events("s", heard, 10)]
    assert [(each["state"], each["attempt"]) for each in told] == [
        ("PENDING", fresh_numbers(clock.now).attempt),
        ("PROCESSING", fresh_numbers(clock.now).attempt + 1),
    ]


async def test_notes_that_let_somebody_in_are_gone(store: Store) -> None:
    for kind in ("in", "other"):
        await store.put_note(Note(kind, "", "", "name", b"1"), DAY)
    await store.go_back(("in",))
    assert [await store.note(kind, "", "", "name") for kind in ("in", "other")] == [None, b"1"]


async def test_many_sessions_and_calls_are_settled(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.store.postgres.copies.AT_ONCE", 3)
    for number in range(8):
        await in_session(store, request(session=f"s{number}", on_lost="unknown"), id=f"s{number}")
    assert await store.go_back(()) == WentBack(unknown=8, going_on=0)
    counts = [there(await store.session("default", "ada", f"s{number}")) for number in range(8)]
    assert [each.open for each in counts] == [0] * 8


@pytest.mark.needs_nodes
async def test_a_ledger_that_somebody_serves_does_not_go_back(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    other = await make_store("b")
    await store.begin(call(waiting_for=WaitingFor.APPROVAL, on_lost="unknown"))
    with pytest.raises(StoreInUse, match="stop all that do"):
        await other.go_back(())
    assert there(await store.find(KEY)).known is not None
    await make_store.close_all()
    alone = await make_store("c")
    assert await alone.go_back(()) == WentBack(unknown=1, going_on=0)
