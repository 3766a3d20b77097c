"""What a worker is given with a call, for whom it is, and that none of it comes back."""

import pytest
from msgspec.structs import replace

from tests.engine.room import ROBOT, TRUSTED, Room, until
from toolyard import Toolkit
from toolyard.engine import worker_context
from toolyard.engine.requests import At
from toolyard.engine.worker_context import WorkerContexts
from toolyard.model.call import CallContext
from toolyard.model.errors import MissingRequirements, Unavailable
from toolyard.model.record import CallRecord
from toolyard.model.tool import Authorization, Requirements
from toolyard.model.worker import ToolDefinition
from toolyard.model.writes import Claimant
from toolyard.store.values import ClaimFilter
from toolyard.trust.access.access import CallerPattern
from toolyard.trust.access.worker_rules import WorkerRule
from toolyard.trust.sealing.ring import BrokenSeal, KeyRing

kit = Toolkit("Kit")
NEEDS = Requirements(authorization=(Authorization("mail"),), secrets=("KEY",))
SEND = ToolDefinition("Far.Send", requirements=NEEDS, on_lost="rerun")
PLAIN = ToolDefinition("Far.Plain", on_lost="rerun")
BROUGHT = CallContext({"mail": "brought-token"}, {"KEY": "brought-secret"}, "ada")
FOR_ADA = CallContext(user_id="ada")


async def claimed(
    room: Room, who: Claimant, tool: str = "Far.Send", context: CallContext = FOR_ADA, call_id: str = "k"
) -> CallRecord:
    """A call that a worker has claimed, and was given nothing yet."""
    room.call(tool, call_id=call_id, context=context)
    return await next_claim(room, who)


async def next_claim(room: Room, who: Claimant) -> CallRecord:
    found: list[CallRecord] = []

    async def came() -> bool:
        found.extend(await room.store.claim(ClaimFilter(who)))
        return bool(found)

    await until(came)
    return found[0]


def keep(room: Room, value: str = "kept") -> None:
    room.kept.tokens["ada", "mail"], room.kept.secrets["KEY"] = f"{value}-token", f"{value}-secret"


async def said(contexts: WorkerContexts, call: CallRecord, text: str) -> str:
    scrubber = await contexts.scrubber_of(call)
    return text if scrubber is None else scrubber.text(text)


def elsewhere(room: Room) -> WorkerContexts:
    """Another node: it remembers nothing of what this one gave."""
    return WorkerContexts(room.store, room.catalogue, room.engine, room.ring, 1000.0, room.workers.may_be_given)


async def test_what_a_call_brought_goes_with_it() -> None:
    async with Room(kit) as room:
        who = await room.offer(SEND)
        call = await claimed(room, who, context=BROUGHT)
        given = await room.contexts.context_of(call, who)
        assert given is not None
        assert (given.tokens, given.secrets) == (BROUGHT.tokens, BROUGHT.secrets)


async def test_what_is_kept_is_filled_in_when_the_call_is_claimed() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room, "old")
        who = await room.offer(SEND)
        call = await claimed(room, who)
        keep(room, "new")
        given = await room.contexts.context_of(call, who)
        assert given is not None
        assert (given.tokens, given.secrets) == ({"mail": "new-token"}, {"KEY": "new-secret"})


async def test_what_is_not_there_any_more_is_said() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room)
        who = await room.offer(SEND)
        call = await claimed(room, who)
        room.kept.secrets.clear()
        with pytest.raises(MissingRequirements):
            await room.contexts.context_of(call, who)
        room.kept.is_away = True
        with pytest.raises(Unavailable):
            await room.contexts.context_of(call, who)


async def test_what_is_kept_is_not_for_a_worker_that_nobody_trusts() -> None:
    """The tool was a trusted worker's when the call was made; who claims it now is not."""
    only_robot = WorkerRule(CallerPattern(subject=("robot",)), trusted=True)
    async with Room(kit, workers=(only_robot, WorkerRule())) as room:
        keep(room)
        who = await room.offer(SEND)
        call = await claimed(room, who)
        stranger = Claimant("default", "eve", serves=who.serves)
        assert await room.contexts.context_of(call, stranger) is None
        assert await room.contexts.context_of(call, who) is not None


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_all_that_was_given_is_kept_out_of_what_is_said(is_elsewhere: bool) -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room)
        who = await room.offer(SEND)
        context = CallContext(secrets={"KEY": "brought-secret"}, user_id="ada")
        call = await claimed(room, who, context=context)
        await room.contexts.context_of(call, who)
        contexts = elsewhere(room) if is_elsewhere else room.contexts
        told = await said(contexts, call, "kept-token brought-secret other")
        assert "kept-token" not in told
        assert "brought-secret" not in told
        assert told.endswith("other")


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_what_earlier_attempts_were_given_counts_too(is_elsewhere: bool) -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room, "first")
        who = await room.offer(SEND)
        call = await claimed(room, who)
        await room.contexts.context_of(call, who)
        await room.requests.leave(At(who, "direct", call.request or "", call.attempt))
        keep(room, "second")
        again = await next_claim(room, who)
        await room.contexts.context_of(again, who)
        contexts = elsewhere(room) if is_elsewhere else room.contexts
        told = await said(contexts, again, "first-token second-token first-secret second-secret")
        assert not any(part in told for part in ("first-token", "second-token", "first-secret", "second-secret"))


async def test_a_call_that_was_given_nothing_is_not_scrubbed() -> None:
    async with Room(kit) as room:
        who = await room.offer(PLAIN)
        call = await claimed(room, who, "Far.Plain", CallContext())
        await room.contexts.context_of(call, who)
        assert await room.contexts.scrubber_of(call) is None
        assert await room.contexts.scrubber(who, "direct", call.request or "", call.attempt) is None
        assert await room.contexts.scrubber(who, "direct", "nothing", 1) is None


async def test_a_request_is_scrubbed_by_who_speaks_of_it_too() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room)
        who = await room.offer(SEND)
        call = await claimed(room, who)
        await room.contexts.context_of(call, who)
        for contexts in (room.contexts, elsewhere(room)):
            scrubber = await contexts.scrubber(who, "direct", call.request or "", call.attempt)
            assert scrubber is not None
            assert "kept-token" not in scrubber.text("kept-token")


async def test_what_was_given_is_noted_sealed_to_its_call_and_gone_with_its_end() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room)
        who = await room.offer(SEND)
        call = await claimed(room, who)
        await room.contexts.context_of(call, who)
        place = (worker_context.KIND, "default", "", str(call.seq))
        note = await room.store.note(*place)
        assert note is not None
        assert b"kept" not in note
        other = replace(call, key=replace(call.key, call_id="other"), seq=call.seq)
        with pytest.raises(BrokenSeal):
            await elsewhere(room).scrubber_of(other)
        await room.contexts.forget(call.session or "", call.request or "")
        assert await room.store.note(*place) is None


async def test_what_another_key_sealed_is_not_given() -> None:
    async with Room(kit) as room:
        who = await room.offer(SEND)
        call = await claimed(room, who, context=BROUGHT)
        other = WorkerContexts(
            room.store, room.catalogue, room.engine, KeyRing(lambda: b"n" * 32), 1000.0, room.workers.may_be_given
        )
        with pytest.raises(BrokenSeal):
            await other.context_of(call, who)


async def test_only_so_many_are_known_by_heart_and_others_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_context, "MOST", 1)
    async with Room(kit, workers=(TRUSTED,)) as room:
        keep(room)
        who = await room.offer(SEND)
        calls = [await claimed(room, who, call_id=call_id) for call_id in ("a", "b")]
        for call in calls:
            await room.contexts.context_of(call, who)
        for call in calls:
            assert "kept-token" not in await said(room.contexts, call, "kept-token")


async def test_a_call_whose_worker_is_about_to_go_has_what_it_brought() -> None:
    async with Room(kit) as room:
        who = await room.offer(SEND)
        call = await claimed(room, who, context=BROUGHT)
        await room.workers.drop(ROBOT, "w1")
        given = await room.contexts.context_of(call, who)
        assert given is not None
        assert given.secrets == BROUGHT.secrets
