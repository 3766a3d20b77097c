"""Upstreams whose prompts and resources misbehave: each is named, bounded, and alone with it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from toolyard.model.tool import Tool
from toolyard.model.upstream import Upstream
from toolyard.upstream import upstreams as following
from toolyard.upstream.connection import UpstreamAccess
from toolyard.upstream.upstreams import UpstreamReport, Upstreams

from ..server.mcp.talking import Client
from .libraries import ROOT, Behind, behind, named, until_listed
from .waiting import DEADLINE_S

ENV = {"PYTHONPATH": str(ROOT)}


def rascal(way: str, **more: Any) -> dict[str, Any]:
    return {"command": [sys.executable, "-m", "tests.upstream.rascal", way], "cwd": str(ROOT), "env": ENV, **more}


class NoShelf:
    async def kept(self, upstream: Upstream) -> bytes | None:
        return None

    async def keep(self, upstream: Upstream, listing: bytes) -> None:
        """Nothing is."""


async def serve_all(upstream: Upstream, tools: Sequence[Tool]) -> Mapping[str, str]:
    return {}


async def reach(upstream: Upstream) -> UpstreamAccess:
    return UpstreamAccess(upstream, env=ENV, most_bytes=2**25)


@asynccontextmanager
async def followed(way: str, **more: Any) -> AsyncIterator[Upstreams]:
    given = {**rascal(way), "env": {}, **more}
    made = Upstreams([Upstream("Rascal", **given)], reach, NoShelf(), serve_all, lambda run: "")
    task = asyncio.create_task(made.followed["Rascal"].follow())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()


async def until(made: Upstreams, condition: Callable[[UpstreamReport], object]) -> UpstreamReport:
    async with asyncio.timeout(DEADLINE_S):
        while not condition(report := made.reports()[0]):
            await asyncio.sleep(0.02)
    return report


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("endless", "does not end"),
        ("round", "does not end"),
        ("huge", "more than 16777216 bytes"),
        ("many", "lists more than 5000 prompts"),
        ("no list", "what is no list"),
        ("silent", "was not listed in time"),
    ],
)
def test_a_list_that_cannot_be_had_is_named_and_the_others_are_there(way: str, why: str) -> None:
    async def scenario() -> None:
        async with followed(way, timeout_s=2.0 if way == "silent" else 20.0) as made:
            report = await until(made, lambda report: report.resources == 4 and "prompts/list" in report.withheld)
            assert why in report.withheld["prompts/list"]
            assert report.tools > 0
            assert report.prompts == 0
            assert report.figures.state == "up"

    asyncio.run(scenario())


def test_lists_that_are_others_each_time_are_looked_at_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LIST_AGAIN_S", 0.01)

    async def scenario() -> None:
        async with followed("other each time") as made:
            told: list[str] = []
            made.assets.subscribe(told.append)
            await until(made, lambda report: report.prompts == 1)
            one = made.followed["Rascal"]
            for _ in range(2):
                before = one._pause_s
                async with asyncio.timeout(DEADLINE_S):
                    while one._pause_s == before:
                        await asyncio.sleep(0.02)
                assert one._pause_s == 2 * before
            assert "prompts" in told

    asyncio.run(scenario())


@pytest.fixture
def client(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    upstream = {"name": "Rascal", **rascal(request.param, timeout_s=2.0)}
    with behind(tmp_path, [upstream], None, "toolyard.reference") as served:
        made = Behind(served, tmp_path / "notes").client(roots={})
        until_listed(made, "prompts/list", "Rascal_greet")
        until_listed(made, "resources/list", "shelf://1")
        yield made
        made.close()


WAYS = {
    "text": "Rascal answered prompts/get without messages",
    "numbers": "Rascal answered prompts/get without messages",
    "nothing": "Rascal answered prompts/get without messages",
    "strange kind": "Rascal answered prompts/get with what is no answer",
    "waits": "Rascal did not answer in 2 s",
    "asks strangely": "Rascal asked for something that nobody can be asked for",
    "asks nothing": "Rascal answered with what is no result",
}


@pytest.mark.parametrize(("client", "why"), WAYS.items(), indirect=["client"])
def test_a_prompt_that_is_none_is_an_error_that_names_whose_it_is(client: Client, why: str) -> None:
    error = named(client, "prompts/get", name="Rascal_greet").error()
    assert error["code"] == -32603
    assert why in error["message"]
    assert client.call("Calculator_Add", {"a": 1, "b": 2}).result()["structuredContent"] == 3
    assert client.call("Rascal_echo", {"text": "hi"}).result()["content"][0]["text"] == "hi"


@pytest.mark.parametrize("client", ["text", "numbers"], indirect=True)
def test_a_resource_that_is_none_is_an_error_that_names_whose_it_is(client: Client) -> None:
    error = named(client, "resources/read", uri="shelf://1").error()
    assert (error["code"], "Rascal answered resources/read without contents" in error["message"]) == (-32603, True)


@pytest.mark.parametrize("client", ["asks for ever"], indirect=True)
def test_what_is_asked_for_ever_is_asked_by_nobody_here(client: Client) -> None:
    """Each round is the client's own: it is given the question, and may ask again or not."""
    for _ in range(3):
        result = named(client, "prompts/get", name="Rascal_greet", inputResponses={"a": {"roots": []}}).result()
        assert result["resultType"] == "input_required"


@pytest.mark.parametrize("client", ["large"], indirect=True)
def test_large_resources_take_their_turns(client: Client) -> None:
    """Of a client that asks for many and reads none of them, some wait; and all come."""
    asked = [named(client, "resources/read", uri="shelf://1") for _ in range(12)]
    assert [len(each.result()["contents"][0]["text"]) for each in asked] == [3_000_000] * 12
