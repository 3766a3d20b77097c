"""A served process goes on after what tools and clients do to it."""

import json
import socket
import struct
from pathlib import Path
from signal import SIGTERM
from urllib.parse import urlsplit

from .processes import Served, serving

TOOLS = '''
import asyncio
from toolyard import Toolkit

kit = Toolkit("Kit")
waiting = []


@kit.tool
async def cancel() -> int:
    """Cancels every task that it finds."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return len(others)


@kit.tool
async def wait() -> str:
    """Waits until it is let go."""
    waiting.append(asyncio.Event())
    await waiting[-1].wait()
    return "done"


@kit.tool
async def waits() -> int:
    """How many calls have waited."""
    return len(waiting)


@kit.tool
async def let_go() -> None:
    """Lets those go that wait."""
    for each in waiting:
        each.set()
'''


def test_a_tool_that_cancels_every_task_does_not_end_the_server(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        for number in range(3):
            assert served.call("Kit.Cancel") >= 1  # the server itself
            served.hear("the server was cancelled by nobody who may, and goes on")
            assert served.call("Kit.Waits") == 0
            ended = {"tool_id": "Kit.Waits", "input": {}, "call_id": f"after-{number}"}
            while "value" not in (answer := served.request("POST", "/tools/call", ended)):
                assert answer["retry_after_ms"] > 0, "until what was cancelled is there again"
        while served.request("GET", "/health") != {"status": "ok"}:
            pass
        assert served.end(SIGTERM) == 0


def leave_during_a_call(served: Served, number: int) -> None:
    where = urlsplit(served.address)
    body = json.dumps({"tool_id": "Kit.Wait", "input": {}}).encode()
    head = f"POST /tools/call HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-type: application/json\r\n"
    with socket.create_connection((where.hostname, where.port or 0)) as connection:
        # Two of them: uvicorn tells only the last request of a connection that its client is gone.
        connection.sendall((f"{head}content-length: {len(body)}\r\n\r\n".encode() + body) * 2)
        while served.call("Kit.Waits") < number:
            pass
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes without a goodbye


def test_a_client_that_leaves_during_its_call_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", "--log-level", "debug", folder=tmp_path) as served:
        for number in range(1, 6):
            leave_during_a_call(served, number)
        served.call("Kit.LetGo")
        assert served.end(SIGTERM) == 0
        said = served.rest()
    assert "a reply could not be sent" not in said
    assert "Traceback" not in said
