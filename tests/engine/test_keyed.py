"""One key, one execution: join, replay, conflict, release."""

import asyncio
from typing import Any

import pytest

from toolyard import Context, InvalidInput, RequestError, ToolError, Toolkit, ToolNotFound
from toolyard.client.protocols import WireName
from toolyard.testing import async_client, client

kit = Toolkit("Kit", version="1.0.0")
ran: list[str] = []


@kit.tool
async def add(a: float, b: float, ctx: Context) -> float:
    """Adds."""
    ran.append(ctx.call_id)
    return a + b


@kit.tool
async def slow(seconds: float) -> str:
    """Takes its time."""
    ran.append("slow")
    await asyncio.sleep(seconds)
    return "done"


@kit.tool
async def flaky() -> str:
    """Fails the first time, and says that trying again may help."""
    ran.append("flaky")
    if len(ran) == 1:
        raise ToolError("Not now", can_retry=True)
    return "done"


@kit.tool
async def broken() -> str:
    """Fails, and says nothing about trying again."""
    ran.append("broken")
    raise ToolError("No")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@pytest.mark.parametrize("wire", ["oxp", "otc", "otc_draft"])
def test_the_same_call_again_is_answered_from_the_ledger(wire: WireName) -> None:
    with client(kit, wire=wire) as yard:
        outcomes = [yard.outcome("Kit.Add", {"a": 1, "b": 2}, call_id="c") for _ in range(3)]
    assert [(o.call_id, bytes(o.value or b""), o.duration_ms) for o in outcomes] == [
        ("c", b"3", outcomes[0].duration_ms)
    ] * 3
    assert ran == ["c"]


def test_the_same_input_is_the_same_however_it_is_written() -> None:
    with client(kit) as yard:
        yard.call("Kit.Add", {"a": 1, "b": 2}, call_id="c")
        yard.call("Kit.Add", {"b": 2.0, "a": 1.0}, call_id="c")
    assert ran == ["c"]


@pytest.mark.parametrize(
    ("tool", "input", "options"),
    [
        ("Kit.Add", {"a": 1, "b": 3}, {}),
        ("Kit.Add@1", {"a": 1, "b": 2}, {}),
        ("Kit.Add", {"a": 1, "b": 2}, {"user_id": "somebody"}),
    ],
)
def test_another_call_with_the_same_key_is_refused(tool: str, input: dict[str, Any], options: Any) -> None:
    with client(kit) as yard:
        yard.call("Kit.Add", {"a": 1, "b": 2}, call_id="c")
        with pytest.raises(RequestError, match="call_id was used for another call"):
            yard.call(tool, input, call_id="c", **options)
        assert yard.call("Kit.Add", {"a": 1, "b": 2}, call_id="c") == 3
    assert ran == ["c"]


def test_what_was_not_valid_does_not_take_a_key_and_is_not_a_conflict() -> None:
    with client(kit) as yard:
        with pytest.raises(InvalidInput):
            yard.call("Kit.Add", {"a": 1}, call_id="c")
        assert yard.call("Kit.Add", {"a": 1, "b": 2}, call_id="c") == 3
        with pytest.raises(InvalidInput):
            yard.call("Kit.Add", {"a": "x", "b": 2}, call_id="c")
        with pytest.raises(ToolNotFound):
            yard.call("Kit.Nope", {"a": "x", "b": 2}, call_id="c")


def test_families_of_wires_have_their_own_keys() -> None:
    async def all_of_them() -> None:
        async with async_client(kit) as oxp:
            sending = oxp._transport
            from toolyard import AsyncClient

            for wire, expected in (("otc", 1), ("otc_draft", 2)):
                await oxp.call("Kit.Add", {"a": 1, "b": 2}, call_id="c")
                other = AsyncClient(wire=wire, sending=sending)  # type: ignore[arg-type]
                await other.call("Kit.Add", {"a": 1, "b": 2}, call_id="c")
                assert len(ran) == expected

    asyncio.run(all_of_them())


def test_an_outcome_that_may_be_retried_releases_the_key() -> None:
    with client(kit) as yard:
        with pytest.raises(ToolError):
            yard.call("Kit.Flaky", call_id="c")
        assert yard.call("Kit.Flaky", call_id="c") == "done"
        assert yard.call("Kit.Flaky", call_id="c") == "done"
    assert ran == ["flaky", "flaky"]


def test_any_other_failure_is_replayed() -> None:
    with client(kit) as yard:
        for _ in range(2):
            with pytest.raises(ToolError, match="No"):
                yard.call("Kit.Broken", call_id="c")
    assert ran == ["broken"]


def test_many_at_once_are_one_execution() -> None:
    async def together() -> list[Any]:
        async with async_client(kit) as yard:
            calls = (yard.call("Kit.Slow", {"seconds": 0.05}, call_id="c") for _ in range(20))
            return list(await asyncio.gather(*calls))

    assert asyncio.run(together()) == ["done"] * 20
    assert ran == ["slow"]


def test_who_will_not_wait_longer_is_told_to_come_back_and_then_joins() -> None:
    with client(kit, sync_wait_s=0.05) as yard:
        with pytest.raises(ToolError, match="still running") as answer:
            yard.call("Kit.Slow", {"seconds": 0.3}, call_id="c")
        assert answer.value.can_retry is True
        assert answer.value.retry_after_ms is not None
    with client(kit, sync_wait_s=0.05, retries=20) as patient:
        assert patient.call("Kit.Slow", {"seconds": 0.2}, call_id="c") == "done"
    assert ran == ["slow", "slow"]


def test_a_caller_who_leaves_does_not_stop_a_keyed_call() -> None:
    async def leave_and_come_back() -> str:
        async with async_client(kit) as yard:
            leaving = asyncio.ensure_future(yard.call("Kit.Slow", {"seconds": 0.05}, call_id="c"))
            while not ran:
                await asyncio.sleep(0)
            leaving.cancel()
            return str(await yard.call("Kit.Slow", {"seconds": 0.05}, call_id="c"))

    assert asyncio.run(leave_and_come_back()) == "done"
    assert ran == ["slow"]
