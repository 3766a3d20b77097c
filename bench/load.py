"""HTTP load over keep-alive connections, one request in flight on each, on one or several servers.

It has to be much faster than what it measures, or it measures itself: hence uvloop, one receive buffer shared
by all connections, requests that are ready-made bytes, and a reader that looks only at the status line and at
content-length. `busy` in the result is the share of its core that it used: near 1.0 it was the limit itself.

The loop is closed: a connection asks again when it has its reply. With `--rate` it is open: requests are due at fixed
times whatever comes back, and a latency is counted from when its request was due, also if it then had to wait for a
free connection: a server that stalls is not spared the requests of that time.

A shared machine changes its speed by a quarter from one second to the next, but hardly within a tenth of one.
So the load goes round in short slices, one server after the other, and the figures are given slice by slice:
those of one turn may be compared. A slice ends when all its replies are in, so that no server works on into
the slice of another.

CPU time a call is what the servers themselves used from before the first slice to after the last, divided by the
calls of all slices (`--pid` says which process serves a url). The load pauses before either reading, so that what a
server writes behind its replies is counted with the calls it belongs to.

A body may hold the marker `@@N@@`: it becomes 16 hex digits that are new for every request, so that each call
has a key of its own. Any status but 200, a broken connection or an unexpected first reply is an error.

    python bench/load.py --url http://127.0.0.1:8000/tools/call --body-file body.json --seconds 2
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

MARKER = b"@@N@@"
BUFFER = bytearray(1 << 20)
VIEW = memoryview(BUFFER)
HEAD_END = b"\r\n\r\n"
OK = b"HTTP/1.1 200"
LENGTH = b"content-length:"
DRAIN_S = 15.0
IDLE_S = 3.0  # less than any server's keep-alive timeout
SETTLE_S = 0.25  # more than any server writes behind
NS_A_TICK = 10**9 // os.sysconf("SC_CLK_TCK")


class LoadError(Exception):
    """The server did something that makes the figures worthless."""


@dataclass
class Target:
    """A server, its connections, and what was seen of it so far."""

    url: str
    make_request: Callable[[], bytes]
    expect: bytes
    pid: int | None = None
    connections: "list[Connection]" = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    used: float = 0.0
    took: float = 0.0
    cpu_ns: int = 0
    """Of the server."""
    sending: bool = False
    waiting: int = 0
    rested_at: float = 0.0
    overdue: "deque[float]" = field(default_factory=deque)
    """Open loop: when requests were due that no connection was free for."""
    drained: "asyncio.Future[None] | None" = None
    first: int = 0
    """How many requests came before those that count."""

    def fail(self, why: str) -> None:
        if self.drained and not self.drained.done():
            self.drained.set_exception(LoadError(f"{self.url}: {why}"))

    def leave(self) -> None:
        """A connection got its last reply of the slice."""
        self.waiting -= 1
        if self.waiting == 0 and self.drained and not self.drained.done():
            self.drained.set_result(None)


class Connection(asyncio.BufferedProtocol):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.make_request = target.make_request
        self.latencies = target.latencies
        self.head = b""
        self.remaining = 0
        self.sent_at = 0.0
        self.is_resting = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def send(self, due: float | None = None) -> None:
        self.is_resting = False
        self.sent_at = due or time.perf_counter()
        self.transport.write(self.make_request())

    @property
    def is_free(self) -> bool:
        return self.is_resting and not self.transport.is_closing()

    def get_buffer(self, sizehint: int) -> memoryview:
        return VIEW

    def buffer_updated(self, nbytes: int) -> None:
        if self.remaining:
            self.remaining -= nbytes
        elif not self.read_head(nbytes):
            return
        if self.remaining == 0:
            self.turn()
        elif self.remaining < 0:
            self.target.fail("more bytes than content-length says")

    def read_head(self, nbytes: int) -> bool:
        """Sets `remaining` from the head; False while the head is not whole or is not acceptable."""
        data = self.head + BUFFER[:nbytes] if self.head else BUFFER[:nbytes]
        end = data.find(HEAD_END)
        if end < 0:
            self.head = bytes(data)
            return False
        self.head = b""
        at = data.find(LENGTH, 0, end)
        if at < 0:
            at = data[:end].lower().find(LENGTH)
        if at < 0 or not data.startswith(OK):
            self.target.fail(f"not a 200 with a content-length: {bytes(data[:300])!r}")
            return False
        length = int(data[at + len(LENGTH) : data.find(b"\r", at)])
        self.remaining = end + len(HEAD_END) + length - len(data)
        return True

    def turn(self) -> None:
        """The reply is whole: note how long it took, and ask again."""
        now = time.perf_counter()
        self.latencies.append(now - self.sent_at)
        if self.target.sending:
            self.sent_at = now
            self.transport.write(self.make_request())
        elif self.target.overdue:
            self.send(self.target.overdue.popleft())
        else:
            self.is_resting = True
            self.target.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """One at rest may be closed: its server keeps others busy for longer than it keeps this one."""
        if not self.is_resting:
            self.target.fail(f"a connection was closed ({exc})")


def request_maker(url: str, body: bytes, headers: dict[str, str]) -> Callable[[], bytes]:
    """POST with a body, GET without."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in ({"Accept": "*/*"} | headers).items())
    if body:
        size = len(body.replace(MARKER, b"0" * 16))
        head += f"Content-Type: application/json\r\nContent-Length: {size}\r\n"
    request = head.encode() + b"\r\n" + body
    if MARKER not in body:
        return lambda: request
    pattern = request.replace(b"%", b"%%").replace(MARKER, b"%016x")
    numbers = itertools.count(time.time_ns())
    repeats = body.count(MARKER)
    return lambda: pattern % ((next(numbers),) * repeats)


async def connect(target: Target, count: int) -> None:
    for connection in target.connections:
        connection.transport.close()
    loop, parts = asyncio.get_running_loop(), urlsplit(target.url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    made = [await loop.create_connection(lambda: Connection(target), host, port) for _ in range(count)]
    target.connections = [connection for _, connection in made]


async def check(target: Target) -> None:
    """One request apart from the load, to see that the reply holds what it should."""
    parts = urlsplit(target.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    writer.write(target.make_request())
    head = await reader.readuntil(HEAD_END)
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(LENGTH)), LENGTH + b"0")
    reply = head + await reader.readexactly(int(length[len(LENGTH) :]))
    writer.close()
    if not reply.startswith(OK) or target.expect not in reply:
        raise LoadError(f"{target.url}: unexpected first reply: {reply[:300]!r}")


async def slice_of(target: Target, seconds: float, rate: float | None = None) -> None:
    """Loads that one server for so long, and until it is at rest again."""
    is_cut = any(connection.transport.is_closing() for connection in target.connections)
    if is_cut or time.perf_counter() - target.rested_at > IDLE_S:
        await connect(target, len(target.connections))
    target.drained = asyncio.get_running_loop().create_future()
    seen, used, began = len(target.latencies), time.process_time(), time.perf_counter()
    await (closed_loop(target, seconds) if rate is None else open_loop(target, seconds, rate))
    async with asyncio.timeout(DRAIN_S):
        await target.drained
    target.rested_at = time.perf_counter()
    target.drained = None
    target.took += target.rested_at - began
    target.used += time.process_time() - used
    target.rates.append((len(target.latencies) - seen) / (target.rested_at - began))


async def closed_loop(target: Target, seconds: float) -> None:
    assert target.drained
    target.sending, target.waiting = True, len(target.connections)
    for connection in target.connections:
        connection.send()
    await asyncio.wait({target.drained}, timeout=seconds)
    target.sending = False


async def open_loop(target: Target, seconds: float, rate: float) -> None:
    """The core is this process's own, so it looks at the clock all the time: timers come in whole milliseconds."""
    assert target.drained
    began, number, last = time.perf_counter(), 0, max(1, round(seconds * rate))
    target.waiting = 1  # this loop itself, until the last is sent
    while number < last and not target.drained.done():
        while number < last and (due := began + number / rate) <= time.perf_counter():
            number += 1
            free = next((each for each in target.connections if each.is_free), None)
            if free is None:
                target.overdue.append(due)
            else:
                target.waiting += 1
                free.send(due)
        await asyncio.sleep(0)
    target.leave()


def cpu_ns(pid: int) -> int:
    """What a process and its descendants have used so far. Nothing that ends is lost: the kernel keeps a process's
    ended threads in the process's own clock, and its ended children in the last two numbers that are read here."""
    children: dict[int, list[int]] = {}
    ended: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            one = int(stat.parent.name)
            children.setdefault(int(fields[1]), []).append(one)
            ended[one] = (int(fields[13]) + int(fields[14])) * NS_A_TICK

    def total(one: int) -> int:
        try:
            own = time.clock_gettime_ns(~one << 3 | 2)  # clock_getcpuclockid(3): the CPU clock of that process
        except OSError:
            return 0
        return own + ended.get(one, 0) + sum(map(total, children.get(one, [])))

    return total(pid)


async def generate(targets: list[Target], options: argparse.Namespace) -> list[dict[str, Any]]:
    in_order = list(zip(targets, options.rate or [None] * len(targets), strict=True))
    for target, rate in in_order:
        await check(target)
        await connect(target, options.connections)
        target.rested_at = time.perf_counter()
        await slice_of(target, options.warmup, rate)
        target.first = 1 + len(target.latencies)
        target.latencies.clear()
        target.rates.clear()
        target.took = target.used = 0.0
    await asyncio.sleep(SETTLE_S)
    for target in targets:
        target.cpu_ns = -cpu_ns(target.pid) if target.pid else 0
    for number in range(max(1, round(options.seconds / options.slice))):
        for target, rate in in_order if number % 2 == 0 else reversed(in_order):
            await slice_of(target, options.slice, rate)
    await asyncio.sleep(SETTLE_S)
    for target in targets:
        target.cpu_ns += cpu_ns(target.pid) if target.pid else 0
    return [summary(target) for target in targets]


def summary(target: Target) -> dict[str, Any]:
    ordered = sorted(target.latencies)
    return {
        "url": target.url,
        "sent": target.first + len(ordered),
        "cpu_us": round(target.cpu_ns / 1000 / len(ordered), 3),
        "seconds": round(target.took, 3),
        "rps": round(statistics.median(target.rates), 1),
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1000, 3),
        "busy": round(target.used / target.took, 3),
        "slices": [round(rate, 1) for rate in target.rates],
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="HTTP load; prints one JSON array")
    parser.add_argument("--url", action="append", required=True, help="may be repeated: loaded in turn")
    parser.add_argument("--body-file", action="append", type=Path, help="one for each url, empty for GET")
    parser.add_argument("--headers", action="append", help="one JSON object for each url")
    parser.add_argument("--rate", action="append", type=float, help="one for each url: open loop, so many a second")
    parser.add_argument("--pid", action="append", type=int, help="one for each url: whose CPU time is taken")
    parser.add_argument("--expect", default="", help="text that the first reply must hold")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each url")
    parser.add_argument("--slice", type=float, default=0.1)
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--core", type=int, help="pin this process to that core")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    bodies = [path.read_bytes() for path in options.body_file] if options.body_file else [b""] * len(options.url)
    headers = list(map(json.loads, options.headers)) if options.headers else [{}] * len(options.url)
    pids = options.pid or [None] * len(options.url)
    expect = options.expect.encode()
    targets = [
        Target(url, request_maker(url, body, more), expect, pid)
        for url, body, more, pid in zip(options.url, bodies, headers, pids, strict=True)
    ]
    gc.disable()
    try:
        print(json.dumps(uvloop.run(generate(targets, options))))
    except TimeoutError:
        print(json.dumps({"error": f"no reply in {DRAIN_S:g} s"}))
    except (LoadError, OSError, EOFError) as error:
        print(json.dumps({"error": str(error)}))
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
