"""An app without a socket: for tests that ask it thousands of things."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from toolyard import Toolkit
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly

from .raw import Reply


class InProcess:
    """An app on a loop of its own."""

    def __init__(self, toolkit: Toolkit, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        self._yard, self._loop = Yard([toolkit], exactly(**settings)), loop

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        said = {"host": "test", "content-type": "application/json", **(headers or {})}
        scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "query_string": path.partition("?")[2].encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in said.items()],
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        self._loop.run_until_complete(self._yard.asgi(scope, receive, send))
        found = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(part["body"] for part in sent[1:]))

    def post(self, path: str, document: Any) -> Reply:
        return self.request("POST", path, json.dumps(document).encode())

    def call(self, tool_id: str, input: Mapping[str, Any] | None = None) -> Reply:
        return self.post("/tools/call", {"tool_id": tool_id, "input": dict(input or {})})

    def stop(self) -> None:
        self._loop.run_until_complete(self._yard.stop())


@contextmanager
def inprocess(toolkit: Toolkit, **settings: Any) -> Iterator[InProcess]:
    loop = asyncio.new_event_loop()
    app = InProcess(toolkit, loop, **settings)
    try:
        yield app
    finally:
        app.stop()
        loop.close()
