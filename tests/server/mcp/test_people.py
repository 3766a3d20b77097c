"""Calls that wait for a person, made by clients that others wrote: they try so often and not for ever, and people take
their time."""

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client as SdkClient

from ...cli.operated import until
from ...cli.processes import Served, serving, toolyard
from ...conformance.serving import environment
from .schemas import MODERN
from .talking import Exchange, Newer, Older, accepted, text_of

FASTMCP = Path(sys.prefix, "fastmcp")
DEADLINE_S = 40.0
ARGUMENTS = {"order": "7", "cents": 500}
TOOLS = '''
from toolyard import Context, Toolkit

pay = Toolkit("Pay", version="1.0.0")


@pay.tool(approval="always")
def refund(order: str, cents: int) -> str:
    """Pays a customer back."""
    return f"{cents} for {order}"


@pay.tool(approval="always")
async def ask(order: str, ctx: Context) -> str:
    """Asks twice before it pays."""
    sure = await ctx.ask("Sure?", bool, name="sure")
    why = await ctx.ask("Why?", str, name="why")
    return f"{sure}, {why}"
'''
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path, variables={"TOOLYARD_SYNC_WAIT_S": "60"}) as made:
        yield made


def metrics(served: Served) -> str:
    with urllib.request.urlopen(f"{served.address}/metrics") as reply:
        text: str = reply.read().decode()
    return text


def is_held(served: Served) -> bool:
    """Whether a call is being answered now."""
    return "toolyard_calls_running 1.0" in metrics(served)


def approve(folder: Path) -> None:
    assert toolyard("approve", "1", folder=folder).code == 0


def test_the_official_client_has_its_answer_after_one_round(served: Served, tmp_path: Path) -> None:
    async def scenario() -> str:
        sent = asyncio.Event()

        async def asked(context: Any, params: Any) -> types.ElicitResult:
            sent.set()
            return types.ElicitResult(action="accept")

        async with SdkClient(
            f"{served.address}/mcp", mode="auto", elicitation_callback=asked, input_required_max_rounds=1
        ) as client:
            assert client.protocol_version == "2026-07-28"
            calling = asyncio.create_task(client.call_tool("Pay_Refund", ARGUMENTS))
            await sent.wait()
            while not calling.done() and not await asyncio.to_thread(is_held, served):
                pass
            await asyncio.to_thread(approve, tmp_path)
            answer = await calling
        return str(answer.content[0].text)  # type: ignore[union-attr]

    assert asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S)) == "500 for 7"


def test_fastmcps_client_has_its_answer_after_one_round(served: Served, tmp_path: Path) -> None:
    if not FASTMCP.is_dir():
        pytest.skip("'make .venv/fastmcp.ok' installs it")
    script = Path(__file__).with_name("fastmcp_approved.py")
    process = subprocess.Popen(
        [str(FASTMCP / "bin" / "python"), str(script), f"{served.address}/mcp"],
        env=environment("open"), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == "asked"
        until(lambda: process.poll() is not None or is_held(served))
        approve(tmp_path)
        out, _ = process.communicate(timeout=DEADLINE_S)
        assert [json.loads(line) for line in out.splitlines()] == ["500 for 7"], "asked once, and answered"
    finally:
        process.kill()


def test_a_client_that_leaves_is_not_held(served: Served) -> None:
    """What waits for it ends long before `sync_wait_s`."""
    body = json.dumps({"tool_id": "Pay.Refund", "call_id": "k", "input": ARGUMENTS})
    assert served.request("POST", "/tools/call", json.loads(body))["missing_requirements"]["approval"]
    retry = (
        f"POST /tools/call HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    )
    host, _, port = served.address.removeprefix("http://").rpartition(":")
    line = socket.create_connection((host, int(port)))
    line.sendall(f"{retry}\r\n\r\n{body}".encode())
    until(lambda: is_held(served))
    line.close()
    until(lambda: not is_held(served))


def approved(client: Newer | Older, folder: Path, meta: dict[str, str], *, is_held: bool) -> Exchange:
    """A call that was made, approved, and made again; `is_held`: made again before it was approved."""

    def call() -> Exchange:
        return client.call("Pay_Ask", {"order": "7"}, meta=meta)

    first = call().response()
    assert "inputRequests" in first["result"] if client.revision == MODERN else first["error"]["code"] == -32042
    again = call() if is_held else None
    approve(folder)
    return again or call()


AGAIN = pytest.mark.parametrize("is_held", [True, False], ids=["held", "later"])
KEYED = pytest.mark.parametrize("meta", [{}, {"toolyard/callId": "k"}], ids=["no key", "key"])


@AGAIN
@KEYED
def test_what_an_approved_call_asks_reaches_who_makes_it_again(
    served: Served, tmp_path: Path, meta: dict[str, str], is_held: bool
) -> None:
    client = Newer(f"{served.address}/mcp", **ELICITATION)
    asked = approved(client, tmp_path, meta, is_held=is_held).result()
    for name, answer in (("sure", True), ("why", "late")):
        assert list(asked["inputRequests"]) == [name]
        asked = client.call(
            "Pay_Ask",
            {"order": "7"},
            requestState=asked["requestState"],
            inputResponses={name: accepted(value=answer)},
            meta=meta,
        ).result()
    assert text_of(asked) == "True, late"
    asked = client.call("Pay_Ask", {"order": "7"}, meta=meta).result()
    assert ("inputRequests" in asked) == (meta == {}), "without a key it is another call, which waits for its own yes"


@AGAIN
@KEYED
def test_what_an_approved_call_asks_is_a_request_on_the_stream_of_who_makes_it_again(
    served: Served, tmp_path: Path, meta: dict[str, str], is_held: bool
) -> None:
    client = Older(f"{served.address}/mcp", "2025-11-25", **ELICITATION).initialize()
    exchange = approved(client, tmp_path, meta, is_held=is_held)
    for message, answer in (("Sure?", True), ("Why?", "late")):
        question = exchange.next()
        assert question["params"]["message"] == message
        client.answer(question, accepted(value=answer))
    (response,) = exchange.rest()
    assert text_of(response["result"]) == "True, late"


def test_who_joins_twice_leaves_no_other_call_behind(served: Served, tmp_path: Path) -> None:
    client = Newer(f"{served.address}/mcp", **ELICITATION)
    approved(client, tmp_path, {}, is_held=False).result()
    asked = client.call("Pay_Ask", {"order": "7"}).result()
    assert list(asked["inputRequests"]) == ["sure"]
    refused = {"action": "decline"}
    state = asked["requestState"]
    client.call("Pay_Ask", {"order": "7"}, requestState=state, inputResponses={"sure": refused}).result()
    until(lambda: "toolyard_calls_running 0.0" in metrics(served))
    assert len(json.loads(toolyard("calls", "--json", folder=tmp_path).out)) == 1
