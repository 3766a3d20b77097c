"""Work is given to those who ask for it: the oldest first, to one alone, and only what they may have."""

import asyncio
import re
from typing import Any

import pytest

from toolyard.model.lifecycle import State, WaitingFor
from toolyard.model.record import CallKey
from toolyard.model.writes import DIRECT, Claimant
from toolyard.store.contract import Store
from toolyard.store.values import ClaimFilter

from .calls import (
    ADA,
    ANEW,
    BOB,
    DONE,
    HEIR,
    OTHER_WORKER,
    REFERENCE,
    SECOND,
    SHARER,
    STRANGER,
    WORKER,
    answer,
    beat,
    call,
    hand_back,
    in_session,
    name,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import TERMS, ManualClock


async def claimed(store: Store, *asked: Any, **others: Any) -> list[str]:
    return [each.key.call_id for each in await store.claim(wanted(*asked, **others))]


async def looked_at(store: Store, *asked: Any, **others: Any) -> list[str]:
    return [each.key.call_id for each in await store.requests(wanted(*asked, **others))]


async def test_a_claim_starts_the_next_attempt_held_by_who_asked(store: Store, clock: ManualClock) -> None:
    await in_session(store, request())
    await clock.advance(1)
    (given,) = await store.claim(wanted())
    assert (given.state, given.attempt, given.holder) == (State.PROCESSING, 1, ADA.holder)
    assert (given.started_at, given.lease_until) == (clock.now, clock.now + TERMS.lease_s)
    assert (given.session, given.request, given.tool, given.input) == ("s", "r", "look_up", b'{"a":1}')
    assert given == await store.row(given.seq)
    assert await store.claim(wanted()) == []


async def test_the_oldest_come_first_and_not_more_than_asked_for(store: Store) -> None:
    await in_session(store, *(request(f"r{number}") for number in range(5)))
    assert await claimed(store, limit=2) == ["r0", "r1"]
    assert await claimed(store, limit=1) == ["r2"]
    assert await claimed(store, limit=100) == ["r3", "r4"]


async def test_what_was_given_back_keeps_its_place(store: Store) -> None:
    await in_session(store, request("r0"), request("r1"))
    (first,) = await store.claim(wanted(limit=1))
    await store.cancel((await store.claim(wanted(limit=1)))[0].seq)
    await store.leave(hand_back(request="r0"))
    await store.add_turn("s", [request("r2")])
    assert await claimed(store) == ["r0", "r2"]
    assert there(await store.row(first.seq)).attempt == 2


async def test_no_request_is_given_to_two(store: Store) -> None:
    await in_session(store, *(request(f"r{number}") for number in range(40)))
    people = [Claimant("default", "ada", worker=f"w{number}") for number in range(20)]
    given = await asyncio.gather(*(store.claim(wanted(who, limit=3)) for who in people))
    all_given = [each.request for each_of in given for each in each_of]
    assert len(all_given) == len(set(all_given)) == 40
    for who, each_of in zip(people, given, strict=True):
        assert {each.holder for each in each_of} <= {who.holder}


async def test_a_claim_and_a_heartbeat_at_the_same_instant_do_not_both_win(store: Store) -> None:
    for number in range(10):
        await in_session(store, request(session=f"s{number}"), id=f"s{number}")
        given, (judged,) = await asyncio.gather(
            store.claim(wanted(session=f"s{number}")), store.beat([beat(SECOND, session=f"s{number}")])
        )
        assert (len(given) == 1) is (there(judged).reason == "held")
        assert there(await store.request(ADA, f"s{number}", "r")).attempt == 1


# --- who may have what ---------------------------------------------------------------------------


@pytest.mark.parametrize("who", [BOB, STRANGER, WORKER, Claimant("other", "bob")])
async def test_a_sessions_requests_are_its_owners(store: Store, who: Claimant) -> None:
    await in_session(store, request())
    assert await store.claim(wanted(who)) == []
    assert await store.requests(wanted(who)) == []
    assert await store.request(who, "s", "r") is None
    assert await store.beat([beat(who)]) == [None]
    assert await store.answer(answer(who)) is None
    assert there(await store.request(ADA, "s", "r")).attempt == 0


async def test_a_workers_tools_are_for_those_who_serve_them(store: Store) -> None:
    called = await name(store, await store.begin(worker_call()))
    for who in (
        ADA,
        BOB,
        Claimant("default", "robot"),
        Claimant("default", "robot", serves=frozenset({"Kit.Tool@2.0.0"})),
    ):
        assert await store.claim(wanted(who)) == []
        assert await store.requests(wanted(who)) == []
        assert await store.request(who, DIRECT, called) is None
        assert await store.beat([beat(who, request=called, session=DIRECT)]) == [None]
    assert await claimed(store, WORKER) == ["call-1"]
    assert await claimed(store, OTHER_WORKER) == []


async def test_calls_of_nodes_are_nobodys(store: Store) -> None:
    begun = await store.begin(call(session="s"))
    await store.hand_back(begun.seq, 1)
    for who in (ADA, WORKER, Claimant("default", "ada", serves=frozenset({REFERENCE}))):
        assert await store.claim(wanted(who)) == []
        assert await store.beat([beat(who, request="call-1")]) == [None]
        assert await store.answer(answer(who, request="call-1")) is None
    assert there(await store.row(begun.seq)).attempt == 1


async def test_a_session_owner_who_serves_tools_gets_both(store: Store) -> None:
    await in_session(store, request())
    await store.begin(worker_call())
    both = Claimant("default", "ada", serves=frozenset({REFERENCE}))
    assert await claimed(store, both) == ["r", "call-1"]


async def test_calls_outside_a_session_have_a_name_each_though_their_callers_gave_the_same(store: Store) -> None:
    await store.begin(worker_call())
    await store.begin(worker_call(key=CallKey("default", "bob", "oxp", "call-1")))
    first, second = await store.claim(wanted(WORKER))
    assert (first.session, second.session) == (DIRECT, DIRECT)
    assert first.request != second.request
    assert (second.key.subject, second.key.call_id) == ("bob", "call-1")
    mine = Claimant("default", "robot", "w1", frozenset({REFERENCE}))
    assert there(await store.answer(answer(mine, 1, request=there(second.request), session=DIRECT))).reason is None
    assert there(await store.row(first.seq)).state is State.PROCESSING
    assert there(await store.row(second.seq)).state is State.COMPLETE


async def test_the_name_of_a_call_outside_a_session_cannot_be_taken_beforehand(store: Store) -> None:
    seq = (await store.begin(worker_call("any"))).seq
    crafted = [f"x~{seq + number}" for number in range(11, 31)]
    for each in ("x", *crafted):
        await store.begin(worker_call(each, key=CallKey("other", "eve", "oxp", each)))
    begun = await asyncio.gather(*(store.begin(worker_call("x", keyed=False)) for _ in range(10)))
    names = {await name(store, each) for each in begun}
    assert len(names) == 10
    assert not names & {"x", *crafted}


async def test_the_name_of_a_call_outside_a_session_does_not_tell_of_others(store: Store) -> None:
    alone = await name(store, await store.begin(worker_call("only-mine")))
    await store.begin(worker_call("order-7", key=CallKey("other", "eve", "oxp", "order-7")))
    second = await name(store, await store.begin(worker_call("order-7")))
    assert re.fullmatch(r"only-mine~[0-9a-f]{16}", alone)
    assert re.fullmatch(r"order-7~[0-9a-f]{16}", second)


async def test_a_sessions_requests_have_the_names_that_their_owner_gave_them(store: Store) -> None:
    await in_session(store, request("x"), request("x~2"))
    assert [each.request for each in await store.claim(wanted())] == ["x", "x~2"]


# --- what is asked for ---------------------------------------------------------------------------

TOOLS = ["look_up", "look_down", "Look_up", "lookXup"]
PATTERNS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "any": ((), TOOLS),
    "a name": (("look_up",), ["look_up"]),
    "a name that nobody has": (("look",), []),
    "a beginning": (("look_*",), ["look_up", "look_down"]),
    "an end": (("*_up",), ["look_up", "Look_up"]),
    "a middle": (("*ook_*",), ["look_up", "look_down", "Look_up"]),
    "everything": (("*",), TOOLS),
    "several": (("look_down", "nothing", "Look_*"), ["look_down", "Look_up"]),
    "a mark that means itself": (("look?up",), []),
    "brackets that mean themselves": (("look[_]up",), []),
    "percent that means itself": (("look%",), []),
    "a backslash that means itself": (("look\\_up", "look\\*"), []),
}
patterns = pytest.mark.parametrize(("asked", "names"), PATTERNS.values(), ids=PATTERNS)


@patterns
async def test_requests_are_asked_for_by_the_names_of_their_tools(
    store: Store, asked: tuple[str, ...], names: list[str]
) -> None:
    await in_session(store, *(request(name, tool=name, reference=name) for name in TOOLS))
    assert await looked_at(store, ADA, *asked) == names
    assert await claimed(store, ADA, *asked) == names


REFERENCES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "any": ((), ["Kit.One@1.0.0", "Kit.One@2.0.0", "Kit.Two@1.0.0", "Bag.One@1.0.0"]),
    "an id": (("Kit.One",), ["Kit.One@1.0.0", "Kit.One@2.0.0"]),
    "a version": (("Kit.One@2.0.0",), ["Kit.One@2.0.0"]),
    "a toolkit": (("Kit.*",), ["Kit.One@1.0.0", "Kit.One@2.0.0", "Kit.Two@1.0.0"]),
    "a toolkit nobody has": (("Ki.*",), []),
    "a tool in any toolkit": (("*.One",), ["Kit.One@1.0.0", "Kit.One@2.0.0", "Bag.One@1.0.0"]),
    "several": (("Bag.*", "Kit.Two"), ["Kit.Two@1.0.0", "Bag.One@1.0.0"]),
    "a mark that means itself": (("Kit?One",), []),
}


@pytest.mark.parametrize(("asked", "references"), REFERENCES.values(), ids=REFERENCES)
async def test_workers_ask_by_ids(store: Store, asked: tuple[str, ...], references: list[str]) -> None:
    every = ["Kit.One@1.0.0", "Kit.One@2.0.0", "Kit.Two@1.0.0", "Bag.One@1.0.0", "Kit.NotServed@1.0.0"]
    for reference in every:
        await store.begin(worker_call(reference, tool=reference.partition("@")[0], reference=reference))
    who = Claimant("default", "robot", serves=frozenset(every[:-1]))
    assert await looked_at(store, who, *asked) == references
    assert await claimed(store, who, *asked) == references


async def test_requests_of_one_session_are_asked_for(store: Store) -> None:
    await in_session(store, request())
    await in_session(store, request(session="t"), id="t")
    assert [each.session for each in await store.claim(wanted(session="t"))] == ["t"]
    assert await store.claim(wanted(session="u")) == []


async def test_what_is_overdue_is_not_given_out_and_hides_nothing(store: Store, clock: ManualClock) -> None:
    await in_session(store, request("late", queue_s=10.0), request("good"))
    await clock.advance(10)
    assert await claimed(store, limit=1) == ["good"]
    assert there(await store.request(ADA, "s", "late")).attempt == 0


async def test_what_ended_before_it_began_is_not_given_out(store: Store) -> None:
    await in_session(store, request("rejected", ending=DONE), request("good"))
    assert await claimed(store) == ["good"]


# --- looking without claiming --------------------------------------------------------------------


async def test_requests_are_looked_at_without_claiming_them(store: Store) -> None:
    await in_session(store, *(request(f"r{number}") for number in range(3)))
    for _ in range(2):
        assert await looked_at(store) == ["r0", "r1", "r2"]
    assert await looked_at(store, limit=2) == ["r0", "r1"]
    assert {each.attempt for each in await store.requests(wanted())} == {0}


async def test_requests_are_looked_at_by_their_state(store: Store) -> None:
    await in_session(store, request("waits"), request("runs"), request("done"))
    await store.beat([beat(request="runs")])
    await store.answer(answer(request="done"))
    assert await looked_at(store) == ["waits"]
    assert await looked_at(store, state=State.PROCESSING) == ["runs"]
    assert await looked_at(store, state=State.COMPLETE) == ["done"]
    assert await looked_at(store, state=None) == ["waits", "runs", "done"]


async def test_one_is_asked_for_unless_more_are(store: Store) -> None:
    await in_session(store, request("r0"), request("r1"))
    assert len(await store.claim(ClaimFilter(ADA))) == 1


async def test_one_request_is_looked_at_by_its_owner_whoever_runs_it(store: Store) -> None:
    await in_session(store, request(), request("hosted", queue="node", reference=REFERENCE, tool="Kit.Tool"))
    assert there(await store.request(ADA, "s", "r")).key.call_id == "r"
    assert there(await store.request(ADA, "s", "hosted")).queue == "node"
    for who in (BOB, STRANGER, WORKER):
        assert await store.request(who, "s", "hosted") is None
    assert await store.request(ADA, "s", "another") is None
    assert await store.request(ADA, "t", "r") is None


@pytest.mark.parametrize(("tenants", "gets"), [(frozenset[str](), False), (frozenset({"default"}), True), (None, True)])
async def test_a_worker_gets_calls_of_the_tenants_it_serves_alone(
    tenants: frozenset[str] | None, gets: bool, store: Store
) -> None:
    called = await name(store, await store.begin(worker_call("call-1")))
    other = Claimant("elsewhere", "robot", "w1", frozenset({REFERENCE}), tenants)
    assert await looked_at(store, other) == await looked_at(store, other, state=None) == (["call-1"] if gets else [])
    assert await claimed(store, other) == (["call-1"] if gets else [])
    if not gets:
        assert await claimed(store, WORKER) == ["call-1"]
        for attempt in (None, 1):
            assert await store.beat([beat(other, attempt, called, DIRECT)]) == [None]
            assert await store.answer(answer(other, attempt, request=called, session=DIRECT)) is None
        assert await store.request(other, DIRECT, called) is None


async def test_who_serves_very_many_tools_is_given_the_oldest_calls_of_whichever_were_called(store: Store) -> None:
    serves = [f"Kit.T{number}@1.0.0" for number in range(1500)]
    for place, number in enumerate((1400, 3, 1400, 700)):
        await store.begin(worker_call(f"call-{place}", reference=serves[number]))
    await store.begin(worker_call(key=CallKey("elsewhere", "ada", "oxp", "k"), reference=serves[0]))
    who = Claimant(WORKER.tenant, WORKER.subject, "w", frozenset(serves))
    found = [each.reference for each in await store.requests(ClaimFilter(who, limit=100))]
    assert found == [serves[number] for number in (1400, 3, 1400, 700)]
    assert [each.reference for each in await store.claim(ClaimFilter(who, limit=3))] == found[:3]
    assert [each.reference for each in await store.claim(ClaimFilter(who, limit=3))] == found[3:]


# --- to whom a call was made -----------------------------------------------------------------------


@pytest.mark.parametrize("who", [HEIR, ANEW], ids=["another caller", "the same caller, as something else"])
async def test_who_comes_to_have_a_tools_name_is_not_given_the_calls_made_before(store: Store, who: Claimant) -> None:
    begun = await store.begin(worker_call("waits"))
    asked = (await name(store, begun), DIRECT)
    assert (await claimed(store, who), await looked_at(store, who)) == ([], [])
    assert await store.request(who, asked[1], asked[0]) is None
    assert await store.beat([beat(who, None, *asked)]) == [None]
    assert await store.answer(answer(who, None, DONE, b"", *asked)) is None
    await store.begin(worker_call("theirs", offer=min(who.serves)))
    assert await claimed(store, who) == ["theirs"]
    assert await claimed(store, WORKER) == ["waits"]


@pytest.mark.parametrize("attempt", [None, 1])
async def test_what_another_caller_holds_is_held_whatever_number_one_names(store: Store, attempt: int | None) -> None:
    begun = await store.begin(worker_call())
    asked = (await name(store, begun), DIRECT)
    assert await claimed(store, WORKER) == ["call-1"]
    before = await store.row(begun.seq)
    verdicts = [
        *await store.beat([beat(SHARER, attempt, *asked)]),
        await store.answer(answer(SHARER, attempt, DONE, b"forged", *asked)),
        await store.leave(hand_back(SHARER, attempt, *asked)),
    ]
    assert [there(each).reason for each in verdicts] == ["held"] * 3
    assert await store.row(begun.seq) == before
    assert there(await store.answer(answer(OTHER_WORKER, 1, DONE, b"", *asked))).reason is None


async def test_what_another_caller_has_or_had_is_not_listed_to_who_shares_the_tool(store: Store) -> None:
    await store.begin(worker_call("waits"))
    for who in (WORKER, OTHER_WORKER, SHARER):
        assert await looked_at(store, who, state=None) == ["waits"]
    (given,) = await store.claim(wanted(WORKER))
    for state in (None, State.PROCESSING):
        assert await looked_at(store, SHARER, state=state) == []
        assert await looked_at(store, OTHER_WORKER, state=state) == ["waits"]
    await store.answer(answer(WORKER, 1, DONE, b"", given.request or "", DIRECT))
    assert await looked_at(store, SHARER, state=State.COMPLETE) == []
    for who in (WORKER, ANEW):
        assert await looked_at(store, who, state=State.COMPLETE) == ["waits"]
    assert await looked_at(store, HEIR, state=None) == []


async def test_what_waits_for_who_offers_the_tool_anew_is_found(store: Store) -> None:
    mine, other = f"{REFERENCE} mine ", f"{REFERENCE} other "
    held = {"waiting_for": WaitingFor.APPROVAL, "queue_s": 60.0}
    await store.begin(worker_call("old", offer=mine + "1"))
    await store.begin(worker_call("held", offer=mine + "1", **held))
    await store.begin(worker_call("runs", offer=mine + "0"))
    await store.begin(worker_call("new", offer=mine + "2"))
    await store.begin(worker_call("another's", offer=other + "1"))
    await store.begin(worker_call("another tool's", reference="Kit.Tool@1.0.1", offer="Kit.Tool@1.0.1 mine 1"))
    assert await claimed(store, Claimant("default", "robot", "w", frozenset({mine + "0"}))) == ["runs"]
    found = await store.superseded([mine + "2", other + "1"], 10)
    assert sorted(each.key.call_id for each in found) == ["held", "old"]
    assert len(await store.superseded([mine + "2"], 1)) == 1
    assert await store.superseded([], 10) == []
