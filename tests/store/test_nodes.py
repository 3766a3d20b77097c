"""Two nodes on one ledger, at the same time."""

import asyncio

import pytest

from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.model.writes import Claimant
from toolyard.store.contract import Store
from toolyard.store.values import Filter, NotedCalls

from .calls import ADA, DONE, KEY, LARGE, answer, beat, call, hand_back, in_session, request, session, there, wanted
from .ledgers import TERMS, ManualClock, Opening
from .test_blocks import Known, ran

pytestmark = pytest.mark.needs_nodes
LEASE_S = TERMS.lease_s


async def test_one_key_begins_on_one_node(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    for number in range(10):
        new = call(f"call-{number}")
        begun = await asyncio.gather(*(each.begin(new) for each in (store, other) * 10))
        (seq,) = [each.seq for each in begun if each.seq]
        assert {there(each.known).seq for each in begun if not each.seq} == {seq}
    assert len(await store.listed(Filter("default"))) == 10


async def test_a_noted_call_begins_on_one_node(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    for number in range(10):
        new, noted = call(keyed=False, fingerprint=b"%d" % number), NotedCalls("hold", (f"{number}",), 60.0)
        begun = await asyncio.gather(*(each.begin_noted(new, noted) for each in (store, other) * 5))
        (seq,) = [each.seq for each in begun if each.seq]
        assert {there(each.known).seq for each in begun if not each.seq} == {seq}


async def test_what_one_node_writes_the_other_reads(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    assert store.shared
    begun = await store.begin(call())
    assert there(there(await other.find(KEY)).known).holder == "a"
    assert there(await other.finish(begun.seq, 1, DONE)).state is State.PROCESSING, "it is not that node's"
    assert await store.finish(begun.seq, 1, DONE) is None
    assert there(await other.row(begun.seq)).value == b"15"


async def test_what_a_living_node_runs_is_not_lost(store: Store, make_store: Opening, clock: ManualClock) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    await clock.advance(LEASE_S / 2)
    assert await other.unstarted(10) == []
    assert await other.restart(begun.seq, 1) is None
    assert not await other.give_up(begun.seq, 1, DONE)


async def test_what_a_node_that_went_ran_is_lost_to_all_and_restarted_by_one(store: Store, make_store: Opening) -> None:
    others = [await make_store("b"), await make_store("c")]
    begun = [await store.begin(call(f"call-{number}")) for number in range(10)]
    await make_store.close(store)
    for other in others:
        assert [each.seq for each in await other.unstarted(100)] == [each.seq for each in begun]
    for each in begun:
        started = await asyncio.gather(*(other.restart(each.seq, 1) for other in others * 3))
        assert [number for number in started if number] == [2]


async def test_what_is_handed_back_is_for_the_other(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    await store.hand_back(begun.seq, 1)
    assert await other.restart(begun.seq, 1) == 2
    assert there(await store.finish(begun.seq, 1, DONE)).holder == "b"
    assert await store.restart(begun.seq, 1) is None
    assert await other.finish(begun.seq, 2, DONE) is None


async def test_no_request_is_given_to_two_on_two_nodes(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    await in_session(store, *(request(f"r{number}") for number in range(60)))
    people = [Claimant("default", "ada", worker=f"w{number}") for number in range(30)]
    nodes = [store, other] * 15
    given = await asyncio.gather(*(node.claim(wanted(who, limit=3)) for node, who in zip(nodes, people, strict=True)))
    all_given = [each.request for each_of in given for each in each_of]
    assert len(all_given) == len(set(all_given))
    rest = await store.claim(wanted(limit=100))
    assert len(all_given) + len(rest) == 60


async def test_of_answers_on_two_nodes_at_the_same_instant_one_is_kept(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    for number in range(10):
        id = f"s{number}"
        await in_session(store, request(session=id), id=id)
        await store.beat([beat(session=id)])
        ends = [Ending(State.COMPLETE, "success", 1.0, value=value) for value in (b"1", b"2")]
        judged = await asyncio.gather(
            *(
                node.answer(answer(attempt=1, ending=end, digest=end.value or b"", session=id))
                for node, end in zip((store, other), ends, strict=True)
            )
        )
        assert sorted(there(each).reason or "" for each in judged) == ["", "conflict"]


async def test_the_same_message_on_two_nodes_is_taken_once(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    await store.create_session(session())
    uses = [request(f"r{number}") for number in range(5)]
    begun = await asyncio.gather(*(node.add_turn("s", uses) for node in (store, other) * 5))
    assert sum(each.seq > 0 for each_of in begun for each in each_of) == 5
    assert there(await other.session("default", "ada", "s")).open == 5


async def test_messages_in_another_order_on_two_nodes_do_not_block_each_other(
    store: Store, make_store: Opening
) -> None:
    other = await make_store("b")
    await store.create_session(session())
    uses = [request(f"r{number}") for number in range(10)]
    async with asyncio.timeout(20):
        await asyncio.gather(
            *(store.add_turn("s", uses) for _ in range(5)), *(other.add_turn("s", uses[::-1]) for _ in range(5))
        )
    assert len(await store.session_requests("s", None)) == 10


async def test_events_of_two_nodes_have_no_gaps(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    ids = [f"r{number}" for number in range(20)]
    begun = await in_session(store, *(request(id) for id in ids))
    async with asyncio.timeout(30):
        await asyncio.gather(
            *(node.beat([beat(request=id) for id in ids[::step]]) for node, step in ((store, 1), (other, -1))),
            *(node.answer(answer(request=id)) for node in (store, other) for id in ids),
            *(other.leave(hand_back(request=id)) for id in ids),
            *(store.cancel(each.seq) for each in begun[::2]),
        )
    numbers = [event.number for event in await other.events("s", 0, 1000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert there(await store.session("default", "ada", "s")).open == 0


async def test_many_beats_on_two_nodes_in_another_order_do_not_block_each_other(
    store: Store, make_store: Opening
) -> None:
    other = await make_store("b")
    ids = [f"r{number}" for number in range(20)]
    await in_session(store, *(request(id) for id in ids))
    await store.claim(wanted(limit=20))
    beats = [beat(attempt=1, request=id) for id in ids]
    async with asyncio.timeout(20):
        verdicts = await asyncio.gather(
            *(store.beat(beats) for _ in range(5)), *(other.beat(beats[::-1]) for _ in range(5))
        )
    assert {there(verdict).reason for each in verdicts for verdict in each} == {None}


async def test_slots_are_for_all_nodes_together(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    taken = await asyncio.gather(*(node.take_slot("Kit.Tool", 5) for node in (store, other) * 10))
    assert sum(taken) == 5
    await make_store.close(store)
    free = [await other.take_slot("Kit.Tool", 5) for _ in range(6)]
    assert sum(free) == sum(taken[::2]), "as many as the one that is gone had"
    assert not await other.take_slot("Kit.Tool", 5)


async def test_expiring_on_two_nodes_settles_each_call_once(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    other = await make_store("b")
    await in_session(store, *(request(f"r{number}", total_s=10.0) for number in range(20)))
    await clock.advance(10)
    await asyncio.gather(*(node.expire(100) for node in (store, other) * 3))
    events = await store.events("s", 0, 1000)
    assert len(events) == 20 + 1 + 20 + 1
    assert there(await store.request(ADA, "s", "r0")).code == "timed_out"


@pytest.mark.parametrize("value", [b"1", LARGE], ids=["a line", "a row"])
async def test_erasing_a_user_reaches_what_other_nodes_have_not_written_yet(
    store: Store, make_store: Opening, clock: ManualClock, value: bytes
) -> None:
    other = await make_store("b")

    def ends(call_id: str, tenant: str, user: str | None) -> None:
        other.behind.add(*ran(Known(call_id, tenant, "ada", user, "Kit.Tool", "oxp", State.COMPLETE, value, 0.0)))

    async def listed() -> set[str]:
        return {each.key.call_id for each in await store.listed(Filter(None))}

    for place, (tenant, user) in enumerate(
        (("default", "uma"), ("acme", "uma"), ("default", "vic"), ("default", None))
    ):
        ends(f"{place}", tenant, user)
    assert await store.erase("default", "uma") == 0, "it is not there yet"
    await other.behind.flush()
    assert await listed() == {"1", "2", "3"}
    await clock.advance(1)
    ends("later", "default", "uma")
    await other.behind.flush()
    assert await listed() == {"1", "2", "3", "later"}
    await clock.advance(-3600)
    ends("much earlier", "default", "uma")
    await other.behind.flush()
    assert await listed() == {"1", "2", "3", "later", "much earlier"}, "a clock that is set erases nothing"
    await clock.advance(3600)
    ends("last", "acme", "uma")
    assert await store.erase(None, "uma") == 3
    await other.behind.flush()
    assert await listed() == {"2", "3"}
