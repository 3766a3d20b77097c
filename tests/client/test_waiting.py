"""A client that waits for the end of its call, and one that does not want it any more."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.conformance.serving import running
from toolyard import AsyncClient, Client, ToolError
from toolyard.client.client import command
from toolyard.client.flows import LONGEST_PAUSE_S, WAIT_S, Flow, Pause, call, call_to_its_end, show_call
from toolyard.model.call import Outcome
from toolyard.model.errors import Busy, KeyConflict, PathNotFound
from toolyard.wires.contract import JSON, Reply, Request
from toolyard.wires.lifecycle.calls import LIFECYCLE
from toolyard.wires.oxp import oxp

TOOLS = '''
import time

from toolyard import Toolkit, ToolError

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def later(seconds: float, fails: bool = False) -> float:
    """Takes its time."""
    time.sleep(seconds)
    if fails:
        raise ToolError("It is closed", can_retry=False)
    return seconds
'''


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("waiting")
    (folder / "tools.py").write_text(TOOLS)
    with running("open", folder, ["tools.py"], {"TOOLYARD_SYNC_WAIT_S": "0.1"}) as url:
        yield url


def test_a_call_is_waited_for_if_so_wished(address: str) -> None:
    with Client(address, retries=0) as client:
        with pytest.raises(ToolError, match="still running"):
            client.call("Kit.Later", {"seconds": 1})
        assert client.call("Kit.Later", {"seconds": 1}, wait=True) == 1
        with pytest.raises(ToolError, match="It is closed"):
            client.call("Kit.Later", {"seconds": 1, "fails": True}, wait=True)
        outcome = client.outcome("Kit.Later", {"seconds": 1}, call_id="mine", wait=True)
    assert (outcome.call_id, outcome.duration_ms >= 1000, outcome.error) == ("mine", True, None)


def test_a_call_is_waited_for_asynchronously(address: str) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(address, retries=0) as client:
            calls = [client.call("Kit.Later", {"seconds": 1}, wait=True) for _ in range(5)]
            assert await asyncio.gather(*calls) == [1] * 5

    asyncio.run(all_of_it())


def test_a_call_is_cancelled(address: str) -> None:
    ended: list[str] = []

    def call() -> None:
        with Client(address) as client, pytest.raises(ToolError) as cancelled:
            client.call("Kit.Later", {"seconds": 20}, call_id="c", wait=True)
        ended.append(cancelled.value.message)

    caller = threading.Thread(target=call)
    caller.start()
    with Client(address) as client:
        while not any(shown["callId"] == "c" for shown in client.calls()):
            pass
        assert client.cancel("c")["code"] == "cancelled"
        assert client.cancel("c")["code"] == "cancelled"
        with pytest.raises(PathNotFound):
            client.cancel("nothing")
    caller.join()
    assert ended == ["The call was cancelled"]


def test_a_call_is_cancelled_asynchronously(address: str) -> None:
    async def all_of_it() -> None:
        async with AsyncClient(address, retries=0) as client:
            with pytest.raises(ToolError, match="still running"):
                await client.call("Kit.Later", {"seconds": 20}, call_id="a")
            assert (await client.cancel("a"))["state"] == "ERROR"

    asyncio.run(all_of_it())


# --- the flow, step by step ----------------------------------------------------------------------

RETRY = ToolError("not now", can_retry=True, retry_after_ms=10)


def answered(flow: Flow, *replies: Reply) -> tuple[list[Request | Pause], Outcome]:
    """What a flow asks for, with these answers, and what it ends with."""
    asked, given, reply = list[Request | Pause](), iter(replies), None
    while True:
        try:
            asked.append(flow.send(reply))
        except StopIteration as end:
            assert list(given) == [], "every answer was wanted"
            return asked, end.value
        reply = None if isinstance(asked[-1], Pause) else next(given)


def result(value: bytes | None = None, error: ToolError | None = None) -> Reply:
    return oxp.FLAT.encode_outcome(Outcome("c", 1.0, None if value is None else Raw(value), error))


def shown(**members: Any) -> Reply:
    return Reply(200, msgspec.json.encode({"callId": "c", **members}), [JSON])


def paths(asked: list[Request | Pause]) -> list[str]:
    return [step.path if isinstance(step, Request) else "pause" for step in asked]


def flow(retries: int = 0) -> Flow:
    return call_to_its_end(oxp.FLAT, command("Kit.Later", {}, call_id="c"), retries)


def test_what_ended_at_once_is_not_looked_for() -> None:
    assert paths(answered(flow(), result(b"1"))[0]) == ["/tools/call"]
    assert paths(answered(flow(), result(error=ToolError("no", can_retry=False)))[0]) == ["/tools/call"]


def test_what_still_runs_is_looked_for_until_it_has_ended() -> None:
    runs, busy = shown(state="PROCESSING"), LIFECYCLE.encode_error(Busy("full", retry_after_ms=10))
    ended = shown(state="COMPLETE", value={"x": 1}, durationMs=7.5)
    asked, outcome = answered(flow(), result(error=RETRY), runs, busy, runs, ended)
    call = "/v1/calls/c"
    assert paths(asked) == ["/tools/call", call, call, "pause", call, call]
    assert isinstance(asked[1], Request)
    assert asked[1].query == f"wait={WAIT_S:g}&family=oxp".encode(), "the call that it made, and no other of that id"
    assert (outcome.duration_ms, bytes(outcome.value or b"")) == (7.5, b'{"x":1}')


def test_what_has_failed_is_tried_again_as_often_as_was_wished() -> None:
    failed = shown(state="ERROR", error={"message": "closed", "can_retry": True, "retry_after_ms": 5})
    asked, outcome = answered(flow(1), result(error=RETRY), failed, result(error=RETRY), failed)
    assert paths(asked) == ["/tools/call", "/v1/calls/c", "pause", "/tools/call", "/v1/calls/c"]
    assert asked[2] == Pause(0.005, "closed")
    assert outcome.error is not None
    assert outcome.error.message == "closed"


@pytest.mark.parametrize(
    "answer",
    [
        LIFECYCLE.encode_error(PathNotFound("no")),
        LIFECYCLE.encode_error(KeyConflict("no")),
        Reply(405, b"", []),
        Reply(200, b"<html>", []),
    ],
    ids=lambda reply: f"{reply.status}",
)
def test_a_server_that_knows_nothing_of_it_is_believed(answer: Reply) -> None:
    asked, outcome = answered(flow(), result(error=RETRY), answer)
    assert paths(asked) == ["/tools/call", "/v1/calls/c"]
    assert outcome.error is not None
    assert outcome.error.message == "not now"


def test_a_long_wait_is_many_short_ones() -> None:
    runs = shown(state="PENDING")
    asked, _ = answered(show_call("c", 50.0, None), runs, runs, runs)
    assert [step.query for step in asked if isinstance(step, Request)] == [b"wait=20", b"wait=20", b"wait=10"]
    assert paths(answered(show_call("c", 50.0, None), runs, shown(state="ERROR"))[0]) == ["/v1/calls/c"] * 2
    assert len(answered(show_call("c", 0.0, None), runs)[0]) == 1


def test_an_option_nobody_knows_is_refused(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(TypeError, match="secrets, tokens, wait"):
        client.call("Kit.Later", waits=True)  # type: ignore[call-arg]


# --- as long as told -----------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [35, 120])
def test_it_never_comes_back_earlier_than_told(seconds: int) -> None:
    limited = oxp.FLAT.encode_error(Busy("Too many calls", retry_after_ms=seconds * 1000))
    asked, _ = answered(flow(1), limited, result(b"1"))
    assert asked[1] == Pause(seconds, "Too many calls")
    failed = result(error=ToolError("not now", can_retry=True, retry_after_ms=seconds * 1000))
    asked, _ = answered(call(oxp.FLAT, command("Kit.Later", {}), 1), failed, result(b"1"))
    assert asked[1] == Pause(seconds, "not now")


def test_who_is_told_to_wait_too_long_gives_up_and_knows_why() -> None:
    ms = int(LONGEST_PAUSE_S * 1000) + 1
    limited = oxp.FLAT.encode_error(Busy("Too many calls", retry_after_ms=ms))
    with pytest.raises(Busy, match="Too many calls") as given_up:
        answered(flow(2), limited)
    assert given_up.value.retry_after_ms == ms
    asked, outcome = answered(
        call(oxp.FLAT, command("Kit.Later", {}), 2), result(error=ToolError("no", can_retry=True, retry_after_ms=ms))
    )
    assert paths(asked) == ["/tools/call"]
    assert outcome.error is not None
    assert outcome.error.retry_after_ms == ms
