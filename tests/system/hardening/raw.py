"""HTTP/1.1 over a bare socket: whatever bytes a test likes out, whole replies back, and never a wait without an end."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 20.0
"""Generous: it is there to turn a hang into a failure."""


class Closed(Exception):
    """The server ended the connection."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_last(self) -> bool:
        return self.headers.get("connection") == "close"


class Connection:
    """One socket. What was read beyond a reply is kept for the next."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=DEADLINE_S)
        self._received = b""

    def send(self, data: bytes) -> None:
        """All of it, unless the server has heard enough: then its answer is what counts."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def reply(self, *, with_body: bool = True) -> Reply:
        """The next reply. Raises Closed when there is none. `with_body=False` for what answers a HEAD."""
        head, _, self._received = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0)) if with_body else 0
        while len(self._received) < size:
            self._receive()
        body, self._received = self._received[:size], self._received[size:]
        return Reply(int(first.split(" ")[1]), headers, body)

    def wait_until_closed(self) -> bytes:
        """What still comes before the end."""
        try:
            while True:
                self._receive()
        except Closed:
            return self._received

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._receive()
        return self._received

    def _receive(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(self._received)
        self._received += data


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    connection = Connection(address)
    try:
        yield connection
    finally:
        connection.socket.close()


def request(
    method: str = "GET", path: str = "/health", headers: Mapping[str, str] | None = None, body: bytes = b""
) -> bytes:
    """A good request, but for what a test puts in."""
    said = {
        "Host": "localhost",
        **({"Content-Type": "application/json", "Content-Length": str(len(body))} if body else {}),
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**said, **(headers or {})}.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def call(tool_id: str, **input: Any) -> bytes:
    """A good call."""
    return request("POST", "/tools/call", body=json.dumps({"tool_id": tool_id, "input": input}).encode())


def ask(address: str, data: bytes) -> Reply:
    """One request on a connection of its own."""
    with connected(address) as connection:
        connection.send(data)
        return connection.reply()


def assert_refused(reply: Reply, *statuses: int) -> None:
    """A JSON object with a message, and a status that blames the client."""
    assert 400 <= reply.status < 500, reply
    assert reply.status in (statuses or (reply.status,)), reply
    assert reply.headers["content-type"] == "application/json"
    assert isinstance(reply.json["message"], str), reply
    assert reply.json["message"], reply


def assert_serves(address: str, connection: Connection | None = None) -> None:
    """The next request works: on this connection, or on a new one."""
    with connected(address) as new:
        used = connection or new
        used.send(request())
        reply = used.reply()
        assert (reply.status, reply.json) == (200, {"status": "ok"})


def refusal(address: str, data: bytes, *statuses: int) -> Reply:
    """What the server says to something it must refuse; afterwards it must go on."""
    with connected(address) as connection:
        connection.send(data)
        reply = connection.reply()
        assert_refused(reply, *statuses)
        if reply.is_last:
            assert connection.wait_until_closed() == b""
        else:
            assert_serves(address, connection)
    assert_serves(address)
    return reply
