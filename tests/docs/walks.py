"""Follows real calls through a real server, function by function: `python -m tests.docs.walks` prints what each walk of
`docs/design/walks.md` really does, as JSON.

It runs in a process of its own, because what is followed is the whole process: the server in the main thread, and a
client in another. Each walk is made twice and the second one counts, since the first also loads what loads late. Tasks
and threads that belong to no call (upkeep, the writer's thread, flushes) are left out.
"""

import asyncio
import http.client
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import toolyard
from toolyard import Toolkit
from toolyard.server.app.compose import Yard
from toolyard.server.app.run import listening_at, serve
from toolyard.server.settings.table import exactly

SOURCE = str(Path(toolyard.__file__).parent) + os.sep
BESIDE = {
    "store/write_behind.py",
    "trust/audit/log.py",
    "store/sqlite/writer.py",
    "supervision.py",
    "server/app/lag.py",
}
"""What works on its own, beside the calls."""
FIRST = ("server/http/fast_path.py", "FastPath.answer")
LAST = ("server/http/uvicorn_protocol.py", "PoliteProtocol.on_response_complete")
OPERATOR = "the-operators-token-of-this-walk"
MODERN = "2026-07-28"
REMOTE = {"id": "Far.Build", "input_schema": {"type": "object"}, "output_schema": {"type": "string"}}

kit = Toolkit("Walk", version="1.0.0")


@kit.tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@kit.tool(approval="always")
async def pay(amount: int) -> str:
    """Pays, once somebody agrees."""
    return f"paid {amount}"


class Follower:
    """Notes each function of toolyard that begins while a walk is followed, once per frame."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []
        self._seen: list[FrameType] = []
        self._is_on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._is_on or event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        if frame.f_code.co_name.startswith("<") or any(frame is each for each in self._seen) or _is_beside(frame):
            return
        self._seen.append(frame)
        self.steps.append((frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname))

    @contextmanager
    def walk(self, is_cut: bool = True) -> Iterator[list[tuple[str, str]]]:
        """What came before the request, the end of the one before it, and what comes after its reply are left out."""
        self.steps, self._seen, self._is_on = [], [], True
        try:
            yield self.steps
        finally:
            self._is_on = False
            del self.steps[: self.steps.index(FIRST)]
            if is_cut and LAST in self.steps:
                del self.steps[self.steps.index(LAST) + 1 :]


def _is_beside(frame: FrameType) -> bool:
    """Whether this belongs to no call: to a supervised task (those have names), or to what only hands on the end of a
    write. What `Restarts` does is supervised, and still belongs to the call that it starts."""
    stack: list[str] = []
    back: FrameType | None = frame
    while back is not None:
        if back.f_code.co_filename.startswith(SOURCE):
            stack.append(back.f_code.co_filename.removeprefix(SOURCE))
        back = back.f_back
    task = asyncio.current_task()
    is_supervised = task is not None and not task.get_name().startswith("Task-")
    return stack[-1] in BESIDE or (is_supervised and "engine/restarts.py" not in stack)


class Walker:
    """A client of the server in this process. Each method is one walk: it gives what its last request went through."""

    def __init__(self, port: int, follower: Follower) -> None:
        self._port, self._follower, self._number = port, follower, 0
        self._thread, self._kept = threading.current_thread(), self._connect()

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """In one piece, so that it is read in one piece; over a connection that is there already."""
        connection = self._kept if threading.current_thread() is self._thread else self._connect()
        sent = b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        shown = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(sent)), **named}
        head = "".join(f"{name}: {value}\r\n" for name, value in shown.items())
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + sent)
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        content = reply.read()
        if connection is not self._kept:
            connection.close()
        if reply.status >= 400 and b"waits for approval" not in content:
            raise AssertionError(f"{method} {path}: {reply.status} {content!r}")
        return json.loads(content) if content else None

    def followed(self, method: str, path: str, body: Any = None, **headers: str) -> list[tuple[str, str]]:
        with self._follower.walk() as steps:
            self.ask(method, path, body, **headers)
        return steps

    def new_key(self) -> str:
        self._number += 1
        return f"walk-{self._number}"

    def oxp(self) -> list[tuple[str, str]]:
        return self.followed("POST", "/tools/call", {"tool_id": "Walk.Add", "input": {"a": 1, "b": 2}})

    def keyed(self) -> list[tuple[str, str]]:
        body = {"tool_id": "Walk.Add", "input": {"a": 1, "b": 2}, "call_id": self.new_key()}
        return self.followed("POST", "/tools/call", body)

    def mcp(self) -> list[tuple[str, str]]:
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": "Walk_Add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        named = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "Walk_Add"}
        return self.followed("POST", "/mcp", body, accept="application/json, text/event-stream", **named)

    def worker(self) -> dict[str, list[tuple[str, str]]]:
        self.ask("PUT", "/v1/workers/far", {"tools": [REMOTE]})
        body = {"tool_id": "Far.Build", "input": {}, "call_id": self.new_key()}
        caller = threading.Thread(target=self.ask, args=("POST", "/tools/call", body))
        caller.start()
        while not self.ask("GET", "/v1/tools/requests")["requests"]:
            pass
        claims: list[Any] = []
        with self._follower.walk() as claim:
            claims = self.ask("POST", "/v1/tools/claim", {"limit": 1}, toolyard_worker="far")["claims"]
        session, request, attempt = (claims[0][name] for name in ("sessionId", "requestId", "attempt"))
        said = {"response": {"state": "COMPLETE", "value": "built"}}
        named = {"toolyard-worker": "far", "toolyard-attempt": str(attempt)}
        answer = self.followed("POST", f"/v1/tools/response/{session}/{request}", said, **named)
        caller.join()
        return {"claim": claim, "answer": answer}

    def approval(self) -> dict[str, list[tuple[str, str]]]:
        key = self.new_key()
        body = {"tool_id": "Walk.Pay", "input": {"amount": 7}, "call_id": key}
        refused = self.followed("POST", "/tools/call", body)
        operator = {"authorization": f"Bearer {OPERATOR}"}
        (waiting,) = self.ask("GET", "/v1/admin/approvals", **operator)["approvals"]
        with self._follower.walk(is_cut=False) as approved:
            self.ask("POST", f"/v1/admin/approvals/{waiting['id']}/approve", {}, **operator)
            while not any(name.endswith(".finished") for _, name in approved):
                threading.Event().wait(0.01)
        self.ask("GET", f"/v1/admin/calls/{key}?wait=30", **operator)
        collected = self.followed("POST", "/tools/call", body)
        return {"refused": refused, "approved": approved, "collected": collected}


def walk_all(port: int, follower: Follower) -> dict[str, Any]:
    walker = Walker(port, follower)
    walks: dict[str, Callable[[], Any]] = {
        "oxp": walker.oxp,
        "keyed": walker.keyed,
        "mcp": walker.mcp,
        "worker": walker.worker,
        "approval": walker.approval,
    }
    made: dict[str, Any] = {}
    for name, walk in walks.items():
        walk()
        given = walk()
        made |= (
            {name: given} if isinstance(given, list) else {f"{name}: {part}": steps for part, steps in given.items()}
        )
    return made


def main() -> None:
    follower, made = Follower(), {}
    listener = socket.create_server(("127.0.0.1", 0))

    def walk() -> None:
        try:
            made.update(walk_all(listener.getsockname()[1], follower))
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    settings = exactly(store="sqlite::memory:", operator_token=OPERATOR, keep_alive_s=60.0)
    yard = Yard([kit], settings, listening=listening_at(listener, settings))
    sys.setprofile(follower)
    with suppress(KeyboardInterrupt):
        serve(yard, listener, lambda: threading.Thread(target=walk).start())
    sys.setprofile(None)
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
