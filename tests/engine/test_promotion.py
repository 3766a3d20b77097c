"""Calls without a key that do not end at once: recorded when their client has waited long enough, or gone with it."""

import asyncio
import contextlib

import pytest

from tests.engine.room import Listener, Room, until, value_of
from toolyard import Context, ToolError, Toolkit
from toolyard.engine import promotion
from toolyard.engine.plans import Timeouts
from toolyard.model.errors import LimitReached, StillRunning
from toolyard.model.lifecycle import State
from toolyard.store.values import StoreDown

kit = Toolkit("Kit", version="1.0.0")
gate: list[asyncio.Event] = []
stopped: list[str] = []


@kit.tool
async def wait(name: str = "") -> str:
    """Waits for the gate."""
    try:
        await gate[0].wait()
    except asyncio.CancelledError:
        stopped.append(name)
        raise
    return name


@kit.tool(on_disconnect="continue")
async def lasting() -> str:
    """Waits for the gate, whoever goes."""
    await gate[0].wait()
    return "done"


@kit.tool(idempotent=True)
async def safe() -> str:
    """Waits for the gate, and may be run again."""
    await gate[0].wait()
    return "done"


@kit.tool(asks=["form"])
async def asking(ctx: Context) -> str:
    """Asks its client."""
    answer: str = await ctx.ask("Who?", name="who")
    return answer


@kit.tool
async def quick() -> str:
    """Is done at once."""
    return "done"


@pytest.fixture(autouse=True)
def _anew() -> None:
    stopped.clear()
    gate[:] = [asyncio.Event()]


AT_ONCE, NEVER = Timeouts(sync_wait_s=0.0), Timeouts(sync_wait_s=1000.0)


async def test_a_call_that_ends_at_once_is_only_written_behind() -> None:
    async with Room(kit, timeouts=AT_ONCE) as room:
        channel = Listener()
        assert value_of(await room.call("Kit.Quick", channel=channel)) == "done"
        assert (channel.seqs, channel.answers, room.behind.is_waiting) == ([], [], True)
        (row,) = await room.rows()
        assert (row.state, row.keyed, row.value) == (State.COMPLETE, False, b'"done"')


async def test_a_slow_call_is_recorded_before_its_client_is_told_where_to_ask() -> None:
    async with Room(kit, timeouts=AT_ONCE) as room:
        channel = Listener()
        calling = room.call("Kit.Wait", {"name": "a"}, channel=channel)
        await until(lambda: bool(channel.answers))
        (row,) = await room.rows()
        assert (row.state, row.attempt, row.holder) == (State.PROCESSING, 1, "here")
        told = channel.answers[0].error
        assert isinstance(told, StillRunning)
        assert (told.can_retry, f"/v1/calls/{row.key.call_id}" in told.message) == (False, True)
        gate[0].set()
        assert value_of(await calling) == "a"
        await room.behind.flush()
        (row,) = await room.rows()
        assert row.value == b'"a"'


async def test_a_call_that_its_client_waits_for_is_written_behind_however_long_it_takes() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        calling = room.call("Kit.Wait", {"name": "a"})
        await until(lambda: bool(room.node.long))
        gate[0].set()
        assert value_of(await calling) == "a"
        assert room.behind.is_waiting
        assert len(await room.rows()) == 1


async def test_a_client_that_goes_takes_its_call_with_it() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        channel = Listener()
        calling = room.call("Kit.Wait", {"name": "a"}, channel=channel)
        await until(lambda: bool(room.node.long))
        channel.go()
        with pytest.raises(ToolError, match="its client went away"):
            value_of(await calling)
        assert (stopped, channel.cancelled) == (["a"], True)
        await room.behind.flush()
        (row,) = await room.rows()
        assert row.code == "cancelled"


async def test_a_client_that_was_told_to_come_back_may_go() -> None:
    async with Room(kit, timeouts=AT_ONCE) as room:
        channel = Listener()
        calling = room.call("Kit.Wait", {"name": "a"}, channel=channel)
        await until(lambda: bool(channel.answers))
        channel.go()
        gate[0].set()
        assert value_of(await calling) == "a"


async def test_a_tool_may_say_that_its_call_goes_on() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        channel = Listener()
        calling = room.call("Kit.Lasting", channel=channel)
        await until(lambda: bool(room.node.long))
        channel.go()
        gate[0].set()
        assert value_of(await calling) == "done"


async def test_a_call_that_is_cancelled_in_the_ledger_stops_here() -> None:
    async with Room(kit, timeouts=AT_ONCE) as room:
        channel = Listener()
        calling = room.call("Kit.Wait", {"name": "a"}, channel=channel)
        await until(lambda: bool(channel.answers))
        await room.store.cancel(channel.seqs[0])
        with pytest.raises(ToolError, match="cancelled"):
            value_of(await calling)
        assert stopped == ["a"]
        assert (await room.row(channel.seqs[0])).code == "cancelled"


async def test_a_call_whose_tool_has_gone_meanwhile_is_recorded_all_the_same() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        channel = Listener()
        calling = room.call("Kit.Wait", {"name": "a"}, channel=channel)
        await until(lambda: bool(room.node.long))
        room.catalogue.remove(*kit.tools)
        channel.record()
        await until(lambda: bool(channel.seqs))
        gate[0].set()
        assert value_of(await calling) == "a"


async def test_a_question_has_its_call_recorded_first() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        channel = Listener(asks=["form"])
        calling = room.call("Kit.Asking", channel=channel)
        await until(lambda: bool(channel.questions))
        ((name, seq),) = channel.questions
        row = await room.row(seq)
        assert (name, row.waiting_for) == ("who", "answer")
        await room.questions.answer(row, {"who": {"action": "accept", "content": {"value": "Ada"}}})
        assert value_of(await calling) == "Ada"
        assert (await room.row(seq)).value == b'"Ada"'


async def test_a_ledger_that_is_away_is_tried_again_before_anything_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "TRY_AGAIN_S", 0.0)
    async with Room(kit, timeouts=AT_ONCE) as room:
        begin, tries = room.store.begin, list[int]()

        async def failing(*given: object) -> object:
            tries.append(1)
            if len(tries) < 3:
                raise StoreDown("The ledger is away", retry_after_ms=1)
            return await begin(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(room.store, "begin", failing)
        channel = Listener()
        calling = room.call("Kit.Wait", channel=channel)
        await until(lambda: bool(channel.answers))
        assert len(tries) == 3
        gate[0].set()
        await calling


@pytest.mark.parametrize(("tool", "state", "code"), [("Safe", State.PENDING, None), ("Wait", State.ERROR, "unknown")])
async def test_a_server_that_stops_hands_a_recorded_call_back_or_ends_it(
    tool: str, state: State, code: str | None
) -> None:
    async with Room(kit, timeouts=AT_ONCE) as room:
        channel = Listener()
        calling = room.call(f"Kit.{tool}", channel=channel)
        await until(lambda: bool(channel.answers))
        await room.node.leave()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        row = await room.row(channel.seqs[0])
        assert (row.state, row.code) == (state, code and f"outcome_{code}")
        await room.behind.flush()
        assert len(await room.rows()) == 1, "it is one call"


async def test_a_server_that_stops_says_of_what_was_not_recorded_that_nobody_knows() -> None:
    async with Room(kit, timeouts=NEVER) as room:
        calling = room.call("Kit.Wait")
        await until(lambda: bool(room.node.long))
        await room.node.leave()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        await room.behind.flush()
        (row,) = await room.rows()
        assert row.code == "outcome_unknown"


async def test_a_call_that_takes_long_counts_in_its_callers_quota() -> None:
    async with Room(kit, timeouts=NEVER, quotas={"running_calls": {"caller": 1}}) as room:
        calling = room.call("Kit.Wait", {"name": "a"})
        await until(lambda: bool(room.node.long))
        with pytest.raises(LimitReached):
            await room.call("Kit.Quick")
        gate[0].set()
        await calling
        assert value_of(await room.call("Kit.Quick")) == "done"
