"""Calls that are recorded and that nobody runs: approved, connected, handed back or lost, all start in one place."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from tests.engine.room import ROBOT, Room, command_of, until
from tests.store.calls import call
from toolyard import Context, Toolkit, authorization, secret
from toolyard.model.call import CallContext
from toolyard.model.lifecycle import State
from toolyard.model.record import CallKey, CallRecord
from toolyard.model.worker import ToolDefinition
from toolyard.store.values import StoreDown
from toolyard.trust.sealing.ring import KeyRing

kit = Toolkit("Kit", version="1.0.0")
ran: list[Any] = []
gate: list[asyncio.Event] = []


@kit.tool
async def once(text: str = "") -> str:
    """Must not run twice."""
    ran.append(text)
    await gate[0].wait()
    return text


@kit.tool(idempotent=True)
async def safe(text: str = "") -> str:
    """May run again."""
    ran.append(text)
    await gate[0].wait()
    return text


@kit.tool(approval="always")
async def risky(text: str = "") -> str:
    """Needs a person's yes."""
    ran.append(text)
    return text


@kit.tool(idempotent=True, requires=secret("KEY"))
async def guarded(ctx: Context) -> str:
    """Needs a secret."""
    ran.append(ctx.secret("KEY"))
    await gate[0].wait()
    return "done"


@kit.tool(idempotent=True, requires=authorization("mail"))
async def mail(ctx: Context) -> str:
    """Needs an account."""
    ran.append(ctx.token("mail"))
    await gate[0].wait()
    return "done"


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()
    gate[:] = [asyncio.Event()]


async def begun(room: Room, tool: str, call_id: str = "k", *, wire: str = "oxp", **members: Any) -> CallRecord:
    """A call that runs when the server dies."""
    gate[0].clear()
    ran.clear()
    room.call(f"Kit.{tool}", call_id=call_id, wire=wire, **members)
    await until(lambda: len(room.node.held) > 0 and len(ran) > 0)
    (held,) = room.node.held
    room.restart()
    ran.clear()
    gate[0].set()
    return await room.row(held.seq)


async def test_a_lost_call_that_may_run_again_does_with_its_next_number() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Safe")
        await room.restarts.start_all()
        row = await room.ended(lost.seq)
        assert (row.attempt, row.losses, row.code, len(ran)) == (2, 1, "success", 1)


@pytest.mark.parametrize("tool", ["Safe", "Guarded"])
async def test_a_node_that_leaves_does_not_take_up_what_it_hands_back(tool: str) -> None:
    """Whoever comes after it does, also where a look was under way as it left."""
    async with Room(kit) as room:
        lost = await begun(room, tool, context=CallContext(secrets={"KEY": "k"}))
        gate[0].clear()
        unstarted = room.store.unstarted

        async def left_meanwhile(limit: int) -> list[CallRecord]:
            found = await unstarted(limit)
            room.store.hints.leave()
            return found

        room.store.unstarted = left_meanwhile  # type: ignore[method-assign]
        await room.restarts.start_all()
        await room.restarts.start_all()
        await room.restarts.stop()
        assert ((await room.row(lost.seq)).attempt, ran) == (1, [])
        room.store.unstarted = unstarted  # type: ignore[method-assign]
        room.store.hints.stay()
        gate[0].set()
        await room.restarts.start_all()
        assert (await room.ended(lost.seq)).attempt == 2


async def test_a_lost_call_that_may_have_had_its_effect_ends_as_unknown() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Once")
        await room.restarts.start_all()
        row = await room.row(lost.seq)
        assert (row.state, row.code, row.effects, ran) == (State.ERROR, "outcome_unknown", "unknown", [])


async def test_a_call_that_is_lost_again_and_again_is_given_up() -> None:
    async with Room(kit, max_attempts=2) as room:
        lost = await begun(room, "Safe")
        gate[0].clear()
        await room.restarts.start_all()
        await until(lambda: len(ran) == 1)
        room.restart()
        await room.restarts.start_all()
        row = await room.row(lost.seq)
        assert (row.code, row.effects) == ("abandoned", "unknown")
        assert b"The tool was started 2 times and never ended" in (row.error or b"")


async def test_a_call_that_was_handed_back_was_not_lost() -> None:
    async with Room(kit) as room:
        begun = await room.store.begin(call("k", reference="Kit.Once@1.0.0", input=b"{}", on_lost="unknown"))
        await room.store.hand_back(begun.seq, 1)
        gate[0].set()
        await room.restarts.start_all()
        row = await room.ended(begun.seq)
        assert (row.attempt, row.losses, row.code) == (2, 0, "success")


async def test_an_approved_call_starts_here() -> None:
    async with Room(kit) as room:
        seq = await room.start("Kit.Risky", {"text": "a"})
        await room.restarts.start_all()
        assert ran == [], "nobody has said yes"
        await room.approvals.decide(await room.row(seq), approved=True, by="op")
        await room.restarts.start_all()
        row = await room.ended(seq)
        assert (row.attempt, row.losses, ran) == (1, 0, ["a"])


async def test_a_connected_call_starts_here() -> None:
    async with Room(kit) as room:
        gate[0].set()
        seq = await room.start("Kit.Mail", context=CallContext(user_id="ada"))
        room.kept.tokens["ada", "mail"] = "t0ken"
        await room.account_waits.look()
        await room.restarts.start_all()
        assert (await room.ended(seq)).code == "success"
        assert ran == ["t0ken"]


async def test_who_asks_for_a_restarted_call_joins_it() -> None:
    async with Room(kit) as room:
        fingerprint = room.durable.print_of(command_of("Kit.Safe", call_id="k"))
        new = call("k", reference="Kit.Safe@1.0.0", input=b"{}", fingerprint=fingerprint)
        lost = await room.row((await room.store.begin(new)).seq)
        room.restart()
        await room.restarts.start_all()
        assert room.durable.runs(lost)
        again = room.call("Kit.Safe", call_id="k")
        await until(lambda: len(ran) == 1)
        gate[0].set()
        assert bytes((await again).value or b"") == b'""'
        assert len(ran) == 1


async def test_a_call_is_started_once_however_often_one_looks() -> None:
    async with Room(kit) as room:
        room.kept.secrets["KEY"] = "s3cret"
        lost = await begun(room, "Guarded")
        room.kept.is_there.clear()
        asked = room.kept.asked
        for _ in range(3):
            await room.restarts.start_all()
        await until(lambda: room.kept.asked > asked)
        assert room.kept.asked == asked + 1
        room.kept.is_there.set()
        assert (await room.ended(lost.seq)).attempt == 2


async def test_one_that_waits_for_what_is_kept_holds_up_no_other() -> None:
    async with Room(kit) as room:
        room.kept.secrets["KEY"] = "s3cret"
        slow = await begun(room, "Guarded", "slow")
        room.kept.is_there.clear()
        quick = (await room.store.begin(call("quick", reference="Kit.Safe@1.0.0", input=b"{}"))).seq
        room.restart()
        await room.restarts.start_all()
        assert (await room.ended(quick)).code == "success"
        assert (await room.row(slow.seq)).state is State.PROCESSING
        room.kept.is_there.set()
        assert (await room.ended(slow.seq)).code == "success"


async def test_what_a_call_brought_is_given_to_its_next_attempt_and_what_is_kept_is_fresh() -> None:
    async with Room(kit) as room:
        room.kept.secrets["KEY"] = "old"
        kept = await begun(room, "Guarded", "kept")
        room.kept.secrets["KEY"] = "new"
        await room.restarts.start_all()
        await room.ended(kept.seq)
        assert ran == ["new"]
        brought = await begun(room, "Guarded", "brought", context=CallContext(secrets={"KEY": "mine"}))
        await room.restarts.start_all()
        await room.ended(brought.seq)
        assert ran == ["mine"]


async def test_a_lost_call_whose_tool_is_gone_ends_and_says_so() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Safe")
        room.catalogue.remove(*kit.tools)
        await room.restarts.start_all()
        row = await room.row(lost.seq)
        assert row.code == "outcome_unknown"
        assert b"The tool cannot be run again: Tool" in (row.error or b"")


async def test_an_approved_call_whose_tool_is_gone_never_began() -> None:
    async with Room(kit) as room:
        seq = await room.start("Kit.Risky", {"text": "a"})
        await room.approvals.decide(await room.row(seq), approved=True, by="op")
        room.catalogue.remove(*kit.tools)
        await room.restarts.start_all()
        row = await room.row(seq)
        assert (row.code, row.effects) == ("tool_failed", "none")
        assert b"The call was not begun" in (row.error or b"")


async def test_a_worker_that_took_a_tools_name_is_not_given_its_calls() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Safe")
        room.catalogue.remove(*kit.tools)
        await room.offer(ToolDefinition("Kit.Safe"), caller=ROBOT)
        await room.restarts.start_all()
        row = await room.row(lost.seq)
        assert (row.queue, row.code) == ("node", "outcome_unknown")


@pytest.mark.parametrize("input", [b"{", b"\xff", b"[" * 100_000])
async def test_a_row_that_cannot_be_read_ends_alone(input: bytes) -> None:
    async with Room(kit) as room:
        gate[0].set()
        broken = (await room.store.begin(call("a", reference="Kit.Safe@1.0.0", input=input))).seq
        whole = (await room.store.begin(call("b", reference="Kit.Safe@1.0.0", input=b"{}"))).seq
        room.restart()
        await room.restarts.start_all()
        assert b"cannot be read" in ((await room.row(broken)).error or b"")
        assert (await room.ended(whole)).code == "success"


async def test_what_another_key_sealed_is_not_guessed() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Guarded", context=CallContext(secrets={"KEY": "mine"}))
        room.restarts._ring = KeyRing(lambda: b"n" * 32)
        await room.restarts.start_all()
        await room.restarts.stop()
        row = await room.ended(lost.seq)
        assert b"none of the server's keys has sealed it" in (row.error or b"")
        assert ran == []


async def test_a_user_whom_nothing_shows_its_caller_named_gets_nothing() -> None:
    async with Room(kit) as room:
        room.kept.tokens["eve", "mail"] = "t0ken"
        seq = (await room.store.begin(call("k", reference="Kit.Mail@1.0.0", input=b"{}", user_id="eve"))).seq
        room.restart()
        await room.restarts.start_all()
        assert (await room.ended(seq)).code == "outcome_unknown"
        assert ran == []


async def test_a_lost_call_that_lacks_its_account_now_waits_where_its_caller_can_be_shown_so() -> None:
    async with Room(kit) as room:
        room.kept.tokens["ada", "mail"] = "t0ken"
        lost = await begun(room, "Mail", wire="mcp-task", context=CallContext(user_id="ada"))
        room.kept.tokens.clear()
        await room.restarts.start_all()
        await room.restarts.stop()
        row = await room.row(lost.seq)
        assert (row.state, row.waiting_for) == (State.PENDING, "authorization")
        room.kept.tokens["ada", "mail"] = "another"
        await room.account_waits.look()
        await room.restarts.start_all()
        await room.ended(lost.seq)
        assert ran == ["another"]


async def test_elsewhere_it_ends_and_says_what_is_no_longer_there() -> None:
    async with Room(kit) as room:
        room.kept.tokens["ada", "mail"] = "t0ken"
        lost = await begun(room, "Mail", context=CallContext(user_id="ada"))
        room.kept.tokens.clear()
        await room.restarts.start_all()
        row = await room.ended(lost.seq)
        assert row.code == "outcome_unknown"
        assert b"which is no longer there" in (row.error or b"")


async def test_while_a_provider_is_away_the_call_waits() -> None:
    async with Room(kit) as room:
        room.kept.secrets["KEY"] = "s3cret"
        lost = await begun(room, "Guarded")
        room.kept.is_away = True
        await room.restarts.start_all()
        await room.restarts.stop()
        row = await room.row(lost.seq)
        assert (row.state, row.waiting_for) == (State.PENDING, "authorization")


async def test_whatever_is_wrong_with_a_call_it_keeps_no_other_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Room(kit) as room:
        gate[0].set()
        odd, good = [
            (await room.store.begin(call(id, reference="Kit.Safe@1.0.0", input=b"{}"))).seq for id in ("odd", "good")
        ]
        room.restart()
        prepare = room.engine.prepare

        async def prepared(tool: Any, command: Any, *given: Any) -> Any:
            if command.call_id == "odd":
                raise ZeroDivisionError
            return await prepare(tool, command, *given)

        monkeypatch.setattr(room.engine, "prepare", prepared)
        with caplog.at_level(logging.ERROR):
            await room.restarts.start_all()
        assert (await room.row(odd)).code == "outcome_unknown"
        assert (await room.ended(good)).code == "success"
        assert "ZeroDivisionError" in caplog.text


async def test_while_the_ledger_is_away_nothing_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Safe")

        async def down(*given: Any) -> Any:
            raise StoreDown("The ledger is away", retry_after_ms=1)

        with monkeypatch.context() as patch:
            patch.setattr(room.store, "restart", down)
            with pytest.raises(StoreDown):
                await room.restarts.start_all()
        assert (await room.row(lost.seq)).state is State.PROCESSING
        await room.restarts.start_all()
        assert (await room.ended(lost.seq)).code == "success"


async def test_a_large_number_of_them_is_started_in_turn() -> None:
    async with Room(kit) as room:
        gate[0].set()
        for number in range(230):
            await room.store.begin(call(str(number), reference="Kit.Safe@1.0.0", input=msgspec.json.encode({})))
        room.restart()
        await room.restarts.start_all()
        assert await room.store.unstarted(1) == []
        await until(lambda: len(ran) == 230)


async def test_a_call_has_its_key_after_it_was_restarted() -> None:
    async with Room(kit) as room:
        lost = await begun(room, "Safe")
        await room.restarts.start_all()
        row = await room.ended(lost.seq)
        assert row.key == CallKey("default", "ada", "oxp", "k")
        assert (await room.call("Kit.Safe", call_id="k")).value is not None
        assert len(ran) == 1
