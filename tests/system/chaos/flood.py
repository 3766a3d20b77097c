"""Whether one caller's service stays what it is while others misbehave: `python -m tests.system.chaos.flood`, a part of
`make soak`.

A caller that behaves is timed alone; beside another that floods the server over many connections; beside thousands of
idle connections; and beside clients that send their header, their body, or read their answer very slowly.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from tests import leftovers
from tests.conformance.serving import running

from .flooding import Caller, call

TOOLS = str(Path(__file__).parents[2] / "server" / "limited.py")
GOOD, BAD = "ty_flood_good_0123456789", "ty_flood_bad_0123456789"
LIMITS = [{"who": {"subject": "bad"}, "calls_per_minute": 600, "at_once": 64}]
PAUSE_S = 0.004
SPARE_FILES = 500


class Plan(Struct, frozen=True):
    """How much of everything."""

    seconds: float = 10.0
    flooding: int = 64
    idle: int = 10_000
    slow: int = 300


class Times(Struct):
    """How long calls took, in milliseconds."""

    took: list[float]

    def at(self, share: float) -> float:
        return sorted(self.took)[min(len(self.took) - 1, int(len(self.took) * share))]

    def __str__(self) -> str:
        shown = {"p50": self.at(0.5), "p99": self.at(0.99), "max": max(self.took)}
        return f"{len(self.took)} calls, {', '.join(f'{name} {ms:.2f} ms' for name, ms in shown.items())}"


class Report(Struct):
    alone: Times
    flooded: Times
    answered: dict[str, int]
    """What the flooder was answered, by status."""
    idle: Times
    idle_connections: int
    slow: Times
    slow_connections: int

    @property
    def is_fair(self) -> bool:
        """Whether the caller that behaves was served about as well beside the one that floods."""
        return self.flooded.at(0.99) <= 2 * self.alone.at(0.99)

    def __str__(self) -> str:
        ratio = self.flooded.at(0.99) / self.alone.at(0.99)
        return "\n".join([
            f"alone:                     {self.alone}",
            f"beside a flood:            {self.flooded} (p99 x {ratio:.2f}); the flood was answered {self.answered}",
            f"beside {self.idle_connections:6} idle:        {self.idle}",
            f"beside {self.slow_connections:6} slow clients: {self.slow}",
        ])  # fmt: skip


async def timed(address: str, seconds: float) -> Times:
    """A caller that behaves: one call after another, with a pause. Every one must be taken. The first is not timed: it
    comes after what others began before it."""
    caller, took, request = await Caller.at(address), list[float](), call(GOOD)
    await caller.status(request)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        status = await caller.status(request)
        took.append((time.perf_counter() - began) * 1000)
        assert status == 200, status
        await asyncio.sleep(PAUSE_S)
    caller.close()
    return Times(took)


async def beside_a_flood(address: str, plan: Plan) -> tuple[Times, dict[str, int]]:
    arguments = [sys.executable, "-m", "tests.system.chaos.flooding", address, BAD, str(plan.flooding)]
    flooder = await asyncio.create_subprocess_exec(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        await asyncio.sleep(0.5)
        times = await timed(address, plan.seconds)
        said, _ = await flooder.communicate(b"")
    finally:
        if flooder.returncode is None:
            flooder.kill()
    answered: dict[str, int] = json.loads(said)
    return times, answered


@asynccontextmanager
async def held(address: str, starts: list[bytes]) -> AsyncIterator[int]:
    """Connections on which something was sent, and then nothing more. How many."""
    parts = urlsplit(address)
    open_ones: list[asyncio.StreamWriter] = []
    try:
        for start in starts:
            _, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1024)
            writer.write(start)
            open_ones.append(writer)
        yield sum(not writer.is_closing() for writer in open_ones)
    finally:
        for writer in open_ones:
            writer.transport.abort()


def slow_starts(count: int) -> list[bytes]:
    """A third each stops in its header, in its body, and never reads a large answer."""
    good = call(GOOD)
    kinds = [good[:40], good[:-5], call(GOOD, "Kit.Large", size=5_000_000)]
    return [kinds[number % 3] for number in range(count)]


async def measured(address: str, plan: Plan) -> Report:
    alone = await timed(address, plan.seconds)
    flooded, answered = await beside_a_flood(address, plan)
    async with held(address, [b""] * plan.idle) as idle_connections:
        idle = await timed(address, plan.seconds)
    async with held(address, slow_starts(plan.slow)) as slow_connections:
        await asyncio.sleep(1)
        slow = await timed(address, plan.seconds)
    return Report(alone, flooded, answered, idle, idle_connections, slow, slow_connections)


def run(folder: Path, plan: Plan) -> Report:
    """In this process and that of a server of its own, both with room for so many connections."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(files[0], min(plan.idle + SPARE_FILES, files[1])), files[1]))
    settings = {
        "TOOLYARD_API_KEYS": f"good:{GOOD},bad:{BAD}",
        "TOOLYARD_LIMITS": json.dumps(LIMITS),
        "TOOLYARD_MAX_CONNECTIONS": str(plan.idle + SPARE_FILES),
        "TOOLYARD_HEADER_TIMEOUT_S": "300",
        "TOOLYARD_BODY_TIMEOUT_S": "300",
        "TOOLYARD_WRITE_TIMEOUT_S": "300",
    }
    try:
        with running("open", folder, [TOOLS], settings) as address:
            return asyncio.run(measured(address, plan))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


def main() -> None:
    leftovers.watch()
    seconds = float(os.environ.get("FLOOD_SECONDS") or Plan().seconds)
    with tempfile.TemporaryDirectory(prefix="toolyard-flood-") as folder:
        report = run(Path(folder), Plan(seconds=seconds))
    sys.stdout.write(f"{report}\n")
    sys.exit(0 if report.is_fair else 1)


if __name__ == "__main__":
    main()
