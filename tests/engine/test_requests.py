"""Calls that others work on: who is given them, who may speak of them, and what counts of what is said."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.engine.room import ADA, BOB, ROBOT, TRUSTED, Listener, Room, until, value_of
from toolyard import Toolkit
from toolyard.engine.plans import Timeouts
from toolyard.engine.requests import At
from toolyard.engine.wait import Wait
from toolyard.model.call import CallContext
from toolyard.model.caller import Caller
from toolyard.model.errors import PathNotFound, Refused, ToolError, ToolNotFound
from toolyard.model.judge import Verdict
from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord
from toolyard.model.session import NewSession, SessionTool, ToolUse
from toolyard.model.tool import Requirements
from toolyard.model.worker import Claim, Heartbeat, Renewal, Response, ToolDefinition
from toolyard.model.writes import Claimant, HeartbeatWrite
from toolyard.store.values import ClaimFilter
from toolyard.trust.access.access import CallerPattern
from toolyard.trust.access.worker_rules import WorkerRule

kit = Toolkit("Kit")
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ADD = ToolDefinition("Far.Add", input_schema=NUMBER, output_schema={"type": "integer"}, on_lost="rerun")
KEYED = ToolDefinition("Far.Keyed", requirements=Requirements(secrets=("KEY",)), on_lost="rerun")


async def noted(claims: object) -> None:
    """Nothing has to be written down here."""


async def claimed(room: Room, who: Claimant) -> tuple[CallRecord, CallContext]:
    found: list[tuple[CallRecord, CallContext]] = []

    async def came() -> bool:
        found.extend(await room.requests.claim(lambda: who, Claim(), Listener(), noted))
        return bool(found)

    await until(came)
    return found[0]


def at(who: Claimant, call: CallRecord, attempt: int | None = None) -> At:
    return At(who, call.session or "", call.request or "", call.attempt if attempt is None else attempt)


async def test_a_worker_that_goes_while_a_call_is_looked_up_takes_its_tool_along() -> None:
    async with Room(kit) as room:
        await room.offer(ADD)
        calling = room.call("Far.Add", {"n": 1}, "k")
        await asyncio.sleep(0)  # the tool is found, and the ledger is asked whether the key is known
        room.catalogue.remove(*room.catalogue.all())
        with pytest.raises(ToolNotFound, match="Tool 'Far_Add' was not found"):
            await calling
        assert await room.rows() == []


async def test_a_call_of_a_workers_tool_waits_for_its_worker_and_gets_its_answer() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        calling = room.call("Far.Add", {"n": 1}, "k")
        call, context = await claimed(room, who)
        assert (call.queue, call.state, call.attempt, call.input) == ("worker", State.PROCESSING, 1, b'{"n":1}')
        assert (context.secrets, context.tokens) == ({}, {})
        assert await room.requests.respond(at(who, call), Response({"value": 2})) == 1
        assert value_of(await calling) == 2


async def test_input_is_checked_before_any_worker_is_asked() -> None:
    async with Room(kit) as room:
        await room.offer(ADD)
        for call_id in (None, "k"):
            with pytest.raises(Exception, match="n"):
                await room.call("Far.Add", {"n": "one"}, call_id)
        assert await room.rows() == []


async def test_a_result_that_breaks_the_schema_is_a_failure() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        calling = room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        await room.requests.respond(at(who, call), Response({"value": "two"}))
        with pytest.raises(ToolError, match="failed unexpectedly"):
            value_of(await calling)


async def test_a_result_that_is_too_large_is_a_failure() -> None:
    anything = ToolDefinition("Far.Any", output_schema={})
    async with Room(kit, timeouts=Timeouts(result_bytes=10)) as room:
        who = await room.offer(anything)
        calling = room.call("Far.Any", call_id="k")
        call, _ = await claimed(room, who)
        await room.requests.respond(at(who, call), Response({"value": "x" * 20}))
        with pytest.raises(ToolError, match="at most 10"):
            value_of(await calling)


async def test_a_worker_that_failed_says_so_and_the_call_ends() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        calling = room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        await room.requests.heartbeat(at(who, call), Heartbeat(error=ToolError("No luck")))
        with pytest.raises(ToolError, match="No luck"):
            value_of(await calling)


async def test_the_same_answer_again_is_taken_and_another_refused() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        for _ in range(2):
            assert await room.requests.respond(at(who, call), Response({"value": 2})) == 1
        with pytest.raises(Refused) as refused:
            await room.requests.respond(at(who, call), Response({"value": 3}))
        assert refused.value.reason == "conflict"
        assert (await room.row(call.seq)).value == b"2"


async def test_a_worker_that_is_late_never_wins() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        calling = room.call("Far.Add", {"n": 1}, "k")
        late, _ = await claimed(room, who)
        await room.clock.advance(31.0)
        await room.store.expire(100)
        await room.offer(ADD)
        again, _ = await claimed(room, who)
        assert (again.seq, again.attempt) == (late.seq, 2)
        with pytest.raises(Refused) as refused:
            await room.requests.respond(at(who, late), Response({"value": 13}))
        assert refused.value.reason == "stale_attempt"
        await room.requests.respond(at(who, again), Response({"value": 2}))
        assert value_of(await calling) == 2


async def test_what_is_anothers_looks_like_what_is_not_there() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        stranger = room.workers.who(BOB)
        told = []
        for place in (at(stranger, call), At(stranger, "direct", "nothing")):
            for speak in (
                room.requests.respond(place, Response({"value": 2})),
                room.requests.heartbeat(place, Heartbeat()),
                room.requests.leave(place),
            ):
                with pytest.raises(PathNotFound) as refused:
                    await speak
                told.append(str(refused.value))
        assert len(set(told)) == 1
        assert await room.requests.claim(lambda: stranger, Claim(), Listener(), noted) == []


async def test_what_is_given_back_is_there_for_the_next() -> None:
    async with Room(kit) as room:
        first = await room.offer(ADD)
        second = await room.offer(ADD, name="w2")
        room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, first)
        with pytest.raises(Refused) as refused:
            await room.requests.leave(At(second, "direct", call.request or ""))
        assert refused.value.reason == "held"
        await room.requests.leave(at(first, call))
        again, _ = await claimed(room, second)
        assert (again.attempt, again.losses) == (2, 0)


async def test_many_are_renewed_at_once_and_each_is_judged_for_itself() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        renewals = [
            Renewal("direct", call.request or "", 1, {"done": 1.0}),
            Renewal("direct", call.request or "", 7),
            Renewal("direct", "nothing", 1),
        ]
        (_, good), (_, stale), (_, absent) = await room.requests.renew(who, renewals)
        assert good is not None
        assert good.reason is None
        assert stale is not None
        assert stale.reason == "stale_attempt"
        assert absent is None
        assert msgspec.json.decode((await room.row(call.seq)).progress or b"") == {"done": 1.0}


async def test_who_renews_does_not_claim_what_it_gave_back() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        call, _ = await claimed(room, who)
        await room.requests.leave(at(who, call))
        await room.requests.renew(who, [Renewal("direct", call.request or "", 1)])
        assert (await room.row(call.seq)).state is State.PENDING
        place = At(who, "direct", call.request or "")
        assert await room.requests.heartbeat(place, Heartbeat()) == 2, "a heartbeat of its own does"


async def _has_rows(room: Room) -> bool:
    return bool(await room.rows())


async def test_who_waits_for_work_is_given_it_as_soon_as_it_comes() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        waiting = asyncio.create_task(room.requests.claim(lambda: who, Claim(wait_s=1000.0), Listener(), noted))
        await room.store.check()
        room.call("Far.Add", {"n": 1}, "k")
        ((call, _),) = await waiting
        assert call.key.call_id == "k"


async def test_a_worker_that_has_gone_is_given_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it goes just when a call was claimed for it: that goes back, and counts as no loss."""
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        await until(lambda: _has_rows(room))
        client, claim = Listener(), room.store.claim

        async def claiming(wanted: Any) -> Any:
            found = await claim(wanted)
            client.go()
            return found

        monkeypatch.setattr(room.store, "claim", claiming)
        assert await room.requests.claim(lambda: who, Claim(), client, noted) == []
        (row,) = await room.rows()
        assert (row.state, row.attempt, row.losses) == (State.PENDING, 1, 0)


async def test_a_server_that_leaves_gives_no_more_work() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        waiting = asyncio.create_task(room.requests.claim(lambda: who, Claim(wait_s=1000.0), Listener(), noted))
        await room.store.check()
        room.store.hints.leave()
        assert await waiting == []


async def test_an_untrusted_worker_is_not_given_what_is_kept_here() -> None:
    async with Room(kit) as room:
        await room.offer(KEYED)
        room.kept.secrets["KEY"] = "s3cret"
        with pytest.raises(Exception, match="needs the secret KEY"):
            await room.call("Far.Keyed", call_id="k")


async def test_a_call_with_what_is_not_for_its_worker_goes_back_to_others() -> None:
    only_robot = WorkerRule(CallerPattern(subject=("robot",)), trusted=True)
    async with Room(kit, workers=(only_robot, WorkerRule())) as room:
        room.kept.secrets["KEY"] = "s3cret"
        who = await room.offer(KEYED)
        room.call("Far.Keyed", call_id="k")
        await until(lambda: _has_rows(room))
        stranger = Claimant("default", "eve", serves=who.serves)
        assert await room.requests.claim(lambda: stranger, Claim(), Listener(), noted) == []
        (row,) = await room.rows()
        assert (row.state, row.losses) == (State.PENDING, 0)
        assert len(await room.requests.claim(lambda: who, Claim(), Listener(), noted)) == 1


async def test_what_a_worker_was_given_does_not_come_back_in_what_it_says() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        room.kept.secrets["KEY"] = "s3cret-value"
        who = await room.offer(KEYED)
        calling = room.call("Far.Keyed", call_id="k")
        call, context = await claimed(room, who)
        assert context.secrets == {"KEY": "s3cret-value"}
        await room.requests.renew(who, [Renewal("direct", call.request or "", 1, {"message": "has s3cret-value"})])
        assert b"s3cret-value" not in ((await room.row(call.seq)).progress or b"")
        await room.requests.respond(at(who, call), Response({"value": {"echo": "s3cret-value"}}))
        assert "s3cret-value" not in str(value_of(await calling))
        assert b"s3cret-value" not in ((await room.row(call.seq)).value or b"s3cret-value")


async def test_a_claimed_call_that_lacks_its_secret_is_given_to_nobody() -> None:
    async with Room(kit, workers=(TRUSTED,)) as room:
        room.kept.secrets["KEY"] = "s3cret"
        who = await room.offer(KEYED)
        calling = room.call("Far.Keyed", call_id="k")
        await until(lambda: _has_rows(room))
        room.kept.secrets.clear()
        assert await room.requests.claim(lambda: who, Claim(), Listener(), noted) == []
        with pytest.raises(ToolError, match="Nothing was done; call again"):
            value_of(await calling)


async def test_the_owner_of_a_sessions_request_may_cancel_it_and_nobody_else() -> None:
    async with Room(kit) as room:
        await room.sessions.open(ADA, "s", NewSession((SessionTool("own", "", {"type": "object"}),)))
        await room.sessions.take(ADA, "s", [ToolUse("u", "own")], str)
        with pytest.raises(PathNotFound):
            await room.requests.cancel(BOB, "s", "u")
        assert (await room.requests.cancel(ADA, "s", "u")).code == "cancelled"


@pytest.mark.parametrize(("result", "code"), [({"n": 1}, "success"), ({"n": "one"}, "tool_failed")])
async def test_a_sessions_result_is_held_to_its_own_schema(result: dict[str, Any], code: str) -> None:
    async with Room(kit) as room:
        own = SessionTool("own", "", {"type": "object"}, NUMBER)
        await room.sessions.open(ADA, "s", NewSession((own,)))
        (call,) = await room.sessions.take(ADA, "s", [ToolUse("u", "own")], str)
        who = Claimant("default", "ada")
        await room.requests.respond(At(who, "s", "u"), Response(result))
        assert (await room.row(call.seq)).code == code


async def test_requests_are_listed_without_being_claimed() -> None:
    async with Room(kit) as room:
        who = await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        await until(lambda: _has_rows(room))
        (found,) = await room.requests.listed(lambda: ClaimFilter(who), Wait(0.0, Listener()))
        assert (found.key.call_id, found.attempt) == ("k", 0)
        other = ClaimFilter(room.workers.who(Caller("other", "x")))
        assert await room.requests.listed(lambda: other, Wait(0.0, Listener())) == []


async def test_a_worker_may_come_before_its_own_registration() -> None:
    async with Room(kit) as room:
        waiting = asyncio.create_task(
            room.requests.claim(lambda: room.workers.who(ROBOT, "w1"), Claim(wait_s=1000.0), Listener(), noted)
        )
        await room.store.check()
        await room.offer(ADD)
        room.call("Far.Add", {"n": 1}, "k")
        assert len(await waiting) == 1


async def test_of_what_takes_the_ledger_for_long_each_caller_has_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Room(kit) as room:
        at_once, most = Counter[str](), Counter[str]()
        beat = room.store.beat

        async def counted(beats: Sequence[HeartbeatWrite]) -> list[Verdict | None]:
            name = beats[0].who.subject
            at_once[name] += 1
            most[name] = max(most[name], at_once[name])
            most["all"] = max(most["all"], at_once.total())
            try:
                return await beat(beats)
            finally:
                at_once[name] -= 1

        monkeypatch.setattr(room.store, "beat", counted)
        callers = [Claimant("default", name) for name in ("ada", "bob")]
        renewal = Renewal("s", "r", 1)
        await asyncio.gather(*(room.requests.renew(who, [renewal]) for who in callers for _ in range(5)))
        assert most == {"ada": 1, "bob": 1, "all": 2}
