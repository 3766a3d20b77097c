"""A server process whose use of time, memory and disk is watched from outside, by another caller and by the system.

How long the loop is held is measured as another caller's call meanwhile: by how much processor time the server uses
before it answers. So a machine that has much else to do makes nothing longer.
"""

import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import warm
from tests.conformance.serving import command, environment, free_port, stop, wait_until_healthy

MIB = 2**20
KEYS = {name: f"ty_budget_{name}_0123456789" for name in ("quiet", *(f"loud{number}" for number in range(200)))}
TOOLS = str(Path(__file__).with_name("tools.py"))
SETTINGS: dict[str, Any] = {
    "api_keys": ",".join(f"{name}:{key}" for name, key in KEYS.items()),
    "quotas": {"stored_bytes": 40 * MIB},
    "sync_wait_s": "1",
    "grace_s": "0.1",
    "audit": "on",
}
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAUSE_S, LOOK_S, DEADLINE_S = 0.005, 0.05, 120.0


class Server:
    """One process, started anew when a row was too much for it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.folder, self._starts = folder, folder, 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        self.folder = self._folder / str(self._starts)
        self.folder.mkdir()
        self.port, log = free_port(), self.folder / "server.log"
        said = {
            f"TOOLYARD_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in SETTINGS.items()
        }
        with log.open("wb") as output:
            self.process = warm.start(
                command(TOOLS, "--port", str(self.port), "--log-level", "warning"),
                cwd=self.folder, env=environment("open") | said, stdout=output, stderr=output,
            )  # fmt: skip
        wait_until_healthy(self.process, self.port, log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            stop(self.process)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def cpu_s(self) -> float:
        """What all its threads have used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def memory(self, name: str) -> int:
        """`VmRSS` is what it has now, `VmHWM` the most it had since `forget_peak`."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"there is no {name}")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def stored(self) -> int:
        """The ledger's files."""
        return sum(path.stat().st_size for path in self.folder.glob("toolyard.db*"))


class Watch:
    """A quiet caller, who calls again and again while the block lasts. `worst_s` is the most processor time that the
    server used before it answered one of the calls. At twice the bound it is ended: nobody wants to wait for more."""

    def __init__(self, server: Server, bound_s: float) -> None:
        self._server, self._bound_s = server, bound_s
        self.worst_s, self.calls, self.gave_up = 0.0, 0, False
        self._has_begun, self._is_over = threading.Event(), threading.Event()

    @contextmanager
    def watching(self) -> Iterator["Watch"]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        self._has_begun.wait()
        try:
            yield self
        finally:
            self._is_over.set()
            thread.join()

    def _watch(self) -> None:
        with socket.create_connection(("127.0.0.1", self._server.port)) as quiet:
            quiet.settimeout(LOOK_S)
            while not self._is_over.is_set() and not self.gave_up:
                before = self._server.cpu_s()
                quiet.sendall(self._call())
                self._answered(quiet, before)
                self._is_over.wait(PAUSE_S)

    def _call(self) -> bytes:
        """With a key: so the thread that writes the ledger is waited for, too."""
        body = json.dumps({"tool_id": "Kit.Echo", "input": {"value": 1}, "call_id": f"{id(self)}-{self.calls}"})
        head = (
            f"POST /tools/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEYS['quiet']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return (head + body).encode()

    def _answered(self, quiet: socket.socket, before: float) -> None:
        """Whoever is told to come back does so: it is not answered yet."""
        received = b""
        while b'"success":true' not in received:
            if b'"success":false' in received or b'"retry_after_ms"' in received:
                received = b""
                quiet.sendall(self._call())
            try:
                received += quiet.recv(65536)
            except TimeoutError:
                pass
            self.worst_s = max(self.worst_s, self._server.cpu_s() - before)
            if self.worst_s > 2 * self._bound_s:
                self.gave_up = True
                self._has_begun.set()
                self._server.kill()
                return
        self.calls += 1
        self._has_begun.set()


class Reply:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Gone(Exception):
    """The server was ended, or has closed the connection."""


class Loud:
    """A caller who sends the largest things that there may be."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self._key = server, KEYS[name]

    def asking(self, path: str, message: Any = None) -> socket.socket:
        """A connection with a request on it, a call or an MCP message, whose client has little room for the reply."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.server.port))
        head = f"{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
        if message is None:
            client.sendall(f"GET {head}\r\n".encode())
            return client
        body = json.dumps({"jsonrpc": "2.0", "id": 1, **message} if path == "/mcp" else message)
        kinds = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        about = f"MCP-Protocol-Version: 2025-11-25\r\nContent-Length: {len(body)}\r\n"
        client.sendall(f"POST {head}{kinds}{about}\r\n{body}".encode())
        return client

    def sending(self, path: str, size: int) -> socket.socket:
        """A connection on which a body comes, all but its last byte."""
        client = socket.create_connection(("127.0.0.1", self.server.port), timeout=DEADLINE_S)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
        about = f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        with suppress(ConnectionError):  # who is refused need not be listened to
            client.sendall((head + about).encode() + b" " * (size - 1))
        return client

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        said = {"Authorization": f"Bearer {self._key}", "Accept": "application/json, text/event-stream"}
        said |= {"Content-Type": "application/json"} if data is not None else {}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, data, said)
            reply = connection.getresponse()
            is_stream = reply.getheader("content-type", "").startswith("text/event-stream")
            text = reply.readline() if is_stream and method == "GET" else reply.read()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, text)
        except (OSError, http.client.HTTPException) as error:
            raise Gone from error
        finally:
            connection.close()

    def stream(self, method: str, path: str, body: Any = None, until: bytes | None = None, **headers: str) -> bytes:
        """Reads a stream of events to its end, or until something was told. The last that came of it."""
        data = None if body is None else json.dumps(body).encode()
        said = {"Authorization": f"Bearer {self._key}", "Accept": "application/json, text/event-stream"}
        said |= {"Content-Type": "application/json"} if data is not None else {}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, data, said)
            reply, last = connection.getresponse(), b""
            while (until is None or until not in last) and (some := reply.read1(MIB)):
                last = last[-1000:] + some
            return last
        except (OSError, http.client.HTTPException) as error:
            raise Gone from error
        finally:
            connection.close()


def wait_until(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
