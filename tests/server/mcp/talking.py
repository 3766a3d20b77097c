"""An MCP client as plain as can be: what is sent and what comes back are there to be looked at.

Every message that comes back is checked against the schema of its revision.
"""

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from .schemas import MODERN, check_message

DEADLINE_S = 15.0
PREFIX = "io.modelcontextprotocol/"
TASKS = PREFIX + "tasks"
WITH_TASKS: dict[str, Any] = {"extensions": {TASKS: {}}}
NAMED = {
    "tools/call": "name",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
    "resources/read": "uri",
}
INFO = {"name": "plain", "version": "1"}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a name is there twice: {names}"
    return dict(pairs)


def decode(text: bytes | str) -> Any:
    """JSON, in which no object has a member twice."""
    return json.loads(text, object_pairs_hook=_once)


class Exchange:
    """A request that was sent, and what comes back: when it is looked at."""

    def __init__(self, connection: http.client.HTTPConnection, revision: str, sent: Any) -> None:
        self._connection, self._revision = connection, revision
        self.id = sent.get("id") if isinstance(sent, dict) else None
        self._method = sent.get("method") if isinstance(sent, dict) else None
        self._reply: http.client.HTTPResponse | None = None
        self._messages: Iterator[Any] | None = None
        self._until = 0.0
        self.last_event: str | None = None
        self.ids: list[str] = []
        """Of the events so far."""

    @property
    def reply(self) -> http.client.HTTPResponse:
        if self._reply is None:
            self._reply = self._connection.getresponse()
        return self._reply

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def is_stream(self) -> bool:
        return self.reply.getheader("content-type", "") == "text/event-stream"

    def header(self, name: str) -> str | None:
        return self.reply.getheader(name)

    def body(self) -> bytes:
        return self.reply.read()

    def next(self) -> Any:
        """The next message; None at the end."""
        if self._messages is None:
            self._messages = self._events() if self.is_stream else self._one()
        self._until = time.monotonic() + DEADLINE_S
        message = next(self._messages, None)
        for each in message if isinstance(message, list) else [message]:
            if each is not None and not isinstance(message, list):
                check_message(each, self._revision, self._method)
        return message

    def rest(self) -> list[Any]:
        """All that still comes."""
        found = []
        while (message := self.next()) is not None:
            found.append(message)
        return found

    def response(self) -> Any:
        """The last word: what comes before it is skipped."""
        *_, last = self.rest() or [None]
        assert last is not None, "no response came"
        assert "method" not in last, last
        assert last.get("id", self.id) == self.id or "result" not in last, last
        return last

    def result(self) -> Any:
        response = self.response()
        assert "result" in response, response
        return response["result"]

    def error(self) -> Any:
        response = self.response()
        assert "error" in response, response
        return response["error"]

    def close(self) -> None:
        """As a client that goes away."""
        if self._connection.sock is not None:
            self._connection.sock.close()
        if self._reply is not None:
            self._reply.close()
        self._connection.close()

    def _one(self) -> Iterator[Any]:
        body = self.reply.read()
        if body:
            yield decode(body)

    def _events(self) -> Iterator[Any]:
        data: list[str] = []
        while line := self.reply.readline():
            text = line.decode().rstrip("\n")
            field, _, value = text.partition(": ")
            if field == "id":
                self.last_event = value
                self.ids.append(value)
            elif field == "data":
                data.append(value)
            elif not text:
                if any(data):
                    yield decode("\n".join(data))
                data = []
            assert time.monotonic() < self._until, "nothing but signs of life came"


class Wire:
    """HTTP."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.path = parts.hostname or "", parts.port or 80, parts.path
        self.headers = dict(headers or {})
        self._open: list[Exchange] = []

    def send(
        self, method: str, body: bytes | None, headers: dict[str, str], revision: str = MODERN, sent: Any = None
    ) -> Exchange:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        shown = {**self.headers, **headers}
        connection.request(method, self.path, body, {name: value for name, value in shown.items() if value})
        assert connection.sock is not None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.append(Exchange(connection, revision, sent))
        return self._open[-1]

    def close(self) -> None:
        for each in self._open:
            each.close()


class Client:
    """Of one revision."""

    revision: str

    def __init__(self, url: str, revision: str, key: str | None, capabilities: dict[str, Any]) -> None:
        self.revision, self.capabilities = revision, capabilities
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self.wire = Wire(url, headers | ({"authorization": f"Bearer {key}"} if key else {}))
        self._last_id = 0

    def post(self, sent: Any, **headers: str) -> Exchange:
        """A message as it is, or several, or bytes that are none."""
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.wire.send("POST", body, {**self.own_headers(sent), **named}, self.revision, sent)

    def own_headers(self, sent: Any) -> dict[str, str]:
        raise NotImplementedError

    def made(self, method: str, params: dict[str, Any], id: Any = None, **meta: Any) -> dict[str, Any]:
        """A request. `meta`: `progressToken="x"`."""
        self._last_id += 1
        whole = {**params, "_meta": {**self.own_meta(), **params.get("_meta", {}), **meta}}
        if not whole["_meta"]:
            del whole["_meta"]
        return {"jsonrpc": "2.0", "id": self._last_id if id is None else id, "method": method, "params": whole}

    def own_meta(self) -> dict[str, Any]:
        return {}

    def request(self, method: str, params: dict[str, Any] | None = None, id: Any = None, **meta: Any) -> Exchange:
        return self.post(self.made(method, params or {}, id, **meta))

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> Exchange:
        """`more`: other parameters than these two, and `meta` of `_meta`."""
        meta = more.pop("meta", {})
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more}, **meta)

    def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return self.request(method, params).result()

    def act(self, name: str, tool: str = "Play_Act", **more: Any) -> Exchange:
        """A call of a tool that comes to the stage under that name."""
        return self.call(tool, {"name": name}, **more)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> Exchange:
        return self.post({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def close(self) -> None:
        self.wire.close()


class Older(Client):
    """With a handshake, and a session unless it does without."""

    def __init__(
        self, url: str, revision: str, key: str | None = None, session: str | None = None, **capabilities: Any
    ) -> None:
        super().__init__(url, revision, key, capabilities)
        self.session = session
        self.initialized: Any = None

    def own_headers(self, sent: Any) -> dict[str, str]:
        named = {"mcp-session-id": self.session} if self.session else {}
        return {"mcp-protocol-version": self.revision, **named} if self.initialized or self.session else named

    def initialize(self) -> "Older":
        asked = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": INFO}
        exchange = self.request("initialize", asked)
        self.initialized = exchange.result()
        self.session = exchange.header("mcp-session-id")
        assert self.notify("notifications/initialized").status == 202
        return self

    def answer(self, question: Any, result: Any) -> None:
        """A request of the server's."""
        assert self.post({"jsonrpc": "2.0", "id": question["id"], "result": result}).status == 202

    def refuse(self, question: Any) -> None:
        error = {"code": -1, "message": "No"}
        assert self.post({"jsonrpc": "2.0", "id": question["id"], "error": error}).status == 202

    def cancel(self, id: Any) -> None:
        assert self.notify("notifications/cancelled", {"requestId": id}).status == 202

    def get(self, last_event: str | None = None, asked: Any = None) -> Exchange:
        """The stream of changes, or the rest of one that broke off, of that request."""
        more = {"last-event-id": last_event} if last_event else {}
        return self.wire.send("GET", None, {**self.own_headers(None), **more}, self.revision, asked)

    def delete(self) -> Exchange:
        return self.wire.send("DELETE", None, self.own_headers(None), self.revision)

    def at(self, url: str) -> "Older":
        """The same client and session, at another node."""
        other = Older(url, self.revision, None, self.session, **self.capabilities)
        other.wire.headers = dict(self.wire.headers)
        other.initialized, other._last_id = self.initialized, self._last_id + 1000
        return other


class Newer(Client):
    """Which says everything with every request."""

    def __init__(self, url: str, revision: str = MODERN, key: str | None = None, **capabilities: Any) -> None:
        super().__init__(url, revision, key, capabilities)

    def own_headers(self, sent: Any) -> dict[str, str]:
        if not isinstance(sent, dict) or "method" not in sent:
            return {"mcp-protocol-version": self.revision}
        method, params = sent["method"], sent.get("params") or {}
        name = params.get(NAMED.get(method, ""))
        return {
            "mcp-protocol-version": self.revision,
            "mcp-method": method,
            **({"mcp-name": name} if isinstance(name, str) else {}),
        }

    def own_meta(self) -> dict[str, Any]:
        return {
            PREFIX + "protocolVersion": self.revision,
            PREFIX + "clientInfo": INFO,
            PREFIX + "clientCapabilities": self.capabilities,
        }

    def go_on(self, tool: str, name: str, asked: Any, answers: dict[str, Any], **more: Any) -> Exchange:
        """The same call again, with answers to what it asked."""
        return self.act(name, tool, requestState=asked["requestState"], inputResponses=answers, **more)


def connect(url: str, revision: str, key: str | None = None, **capabilities: Any) -> Client:
    """A client that has done what comes before its first request."""
    if revision == MODERN:
        return Newer(url, key=key, **capabilities)
    return Older(url, revision, key, **capabilities).initialize()


def text_of(result: Any) -> str:
    (block,) = result["content"]
    text: str = block["text"]
    return text


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}
