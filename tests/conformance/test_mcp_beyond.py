"""What rows of requests cannot show of MCP: what outlives a server, and another transport."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .rpc import posted
from .serving import MCP_TOOLS, STOP_DEADLINE_S, environment, running
from .steps import steps_of
from .walking import fresh, take_all

OPEN = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "rows", "version": "1"}}
BEFORE: list[dict[str, Any]] = [
    {
        "rpc": {"method": "initialize", "params": OPEN},
        "expect": 200,
        "keep": {"session": "header:Mcp-Session-Id"},
    },
    {
        "rpc": {"method": "logging/setLevel", "params": {"level": "error"}, "session": "{session}"},
        "expect": 200,
    },
    {
        "rpc": {"call": "Desk_Must", "params": {"task": {}}, "session": "{session}"},
        "expect": 200,
        "keep": {"task": "result.task.taskId"},
    },
    {
        "rpc": {"method": "tasks/result", "params": {"taskId": "{task}"}, "session": "{session}"},
        "expect": 200,
    },
]
SESSION: list[dict[str, Any]] = [
    {
        "rpc": {"call": "Desk_CountDown", "session": "{session}"},
        "expect": {"status": 200, "headers": {"Content-Type": "application/json"}},
    },
    {"rpc": {"method": "tools/list", "session": "{session}"}, "by": "bob", "expect": 404},
]
TASK: list[dict[str, Any]] = [
    {
        "rpc": {"method": "tasks/result", "params": {"taskId": "{task}"}, "session": "{session}"},
        "expect": {"status": 200, "json": {"result": {"content": [{"text": "done as a task"}]}}},
    },
]


def test_a_session_outlives_its_server_with_what_it_has_set(tmp_path: Path) -> None:
    """It wants to hear of errors alone, so a warning makes no stream."""
    assert not after_a_restart(SESSION, tmp_path)


def test_a_task_outlives_its_server(tmp_path: Path) -> None:
    assert not after_a_restart(TASK, tmp_path)


def after_a_restart(steps: list[dict[str, Any]], folder: Path) -> list[str]:
    kept = fresh()
    with running("mcp", folder) as base_url:
        assert not take_all(steps_of(BEFORE, {}), base_url, kept)
    with running("mcp", folder) as base_url:
        return take_all(steps_of(steps, {}), base_url, kept)


def test_both_eras_are_spoken_on_standard_output_and_nothing_else_is(tmp_path: Path) -> None:
    newer = {"revision": "2026-07-28", "call": "Desk_Chatter", "id": "b"}
    requests = [{"method": "initialize", "params": OPEN}, {"call": "Desk_Chatter", "id": "a"}, newer]
    lines = b"".join(json.dumps(posted({"rpc": rpc})["json"]).encode() + b"\n" for rpc in requests)
    with subprocess.Popen(
        [sys.executable, "-m", "toolyard", "stdio", *MCP_TOOLS],
        cwd=tmp_path,
        env=environment("open") | {"XDG_STATE_HOME": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        replies = {
            reply["id"]: reply["result"] for reply in map(json.loads, [process.stdout.readline() for _ in requests])
        }
        rest, printed = process.communicate(timeout=STOP_DEADLINE_S)
    assert replies[1]["protocolVersion"] == "2025-11-25"
    assert replies["a"]["content"] == replies["b"]["content"] == [{"type": "text", "text": "said"}]
    assert replies["b"]["resultType"] == "complete"
    assert rest == b""
    assert printed.count(b"chatter") == 2
