"""Taking the figures: interleaved rounds of load, and cold starts.

The machine itself drifts by more than the differences looked for. So all contenders of a scenario are up at
the same time (idle ones cost nothing), and every round loads all of them in turn, in short slices and alternating
order. CPU time a call hardly drifts, and its medians over the rounds are compared. Rates do, so their ratios are
taken between slices that are neighbours in time: the median of a round's slices is that round's ratio, the median of
the rounds is what counts, and their spread shows what is left of the noise.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench.servers import Contender, Exchange, Server, ServerError, serving

LOAD = Path(__file__).resolve().parent / "load.py"
LOAD_TIMEOUT_S = 300
SETTLE_S = 0.3
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = CORES[0], CORES[-1]


@dataclass(frozen=True)
class Effort:
    """How long and how often; the larger, the less noise."""

    rounds: int
    loose_rounds: int
    peer_rounds: int
    starts: int
    peer_starts: int
    seconds: float
    millions: float
    """Of calls that a ledger is filled with."""
    slow_s: float
    """For how long a few calls a second are made."""
    warmup: float = 0.2
    slice: float = 0.1
    connections: int = 64

    def for_loose_bars(self) -> "Effort":
        """Fewer rounds: what is asked for is far from what the noise is."""
        return replace(self, rounds=self.loose_rounds)

    def for_peers(self) -> "Effort":
        """Fewer rounds of longer slices: slow servers differ by more and need time for their first replies."""
        return replace(self, rounds=self.peer_rounds, starts=self.peer_starts, slice=0.3)


@dataclass(frozen=True)
class Sample:
    cpu_us: float
    """The server's CPU time a call."""
    rps: float
    p50_ms: float
    p99_ms: float
    busy: float
    slices: list[float]
    sent: int
    """All requests, also those of warming up."""


@dataclass(frozen=True)
class Entrant:
    """A running server and the exchange it is loaded with."""

    server: Server
    exchange: Exchange

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}{self.exchange.path}"


@dataclass(frozen=True)
class Start:
    seconds: float
    memory_mb: float


def load(entrants: list[Entrant], effort: Effort, rates: list[float] | None = None) -> list[Sample]:
    """One round: a run of the load generator, which takes the entrants in turn, slice by slice. With rates the loop is
    open, and each is asked so many times a second."""
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        command = [sys.executable, str(LOAD), "--core", str(LOAD_CORE)]
        command += ["--seconds", str(effort.seconds), "--slice", str(effort.slice), "--warmup", str(effort.warmup)]
        command += ["--connections", str(effort.connections)]
        for number, entrant in enumerate(entrants):
            body = Path(folder) / str(number)
            body.write_bytes(entrant.exchange.body)
            headers = json.dumps(entrant.exchange.headers(entrant.server.port))
            command += ["--url", entrant.url, "--body-file", str(body), "--headers", headers]
            command += ["--pid", str(entrant.server.process.pid)]
        for rate in rates or []:
            command += ["--rate", str(rate)]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=LOAD_TIMEOUT_S, check=False)
    results = json.loads(done.stdout or b'{"error": "the load generator broke"}')
    if "error" in results:
        raise ServerError(f"under load: {results['error']}")
    members = "cpu_us", "rps", "p50_ms", "p99_ms", "busy", "slices", "sent"
    return [Sample(*(one[member] for member in members)) for one in results]


def interleave(entrants: list[Entrant], effort: Effort) -> list[list[Sample]]:
    """For each entrant its samples, one a round."""
    rounds = [load(entrants, effort) for _ in range(effort.rounds)]
    return [list(samples) for samples in zip(*rounds, strict=True)]


def ratios(samples: list[Sample], base: list[Sample]) -> list[float]:
    """One a round: the median of the ratios between slices that were neighbours."""
    return [
        statistics.median(ours / theirs for ours, theirs in zip(one.slices, other.slices, strict=True))
        for one, other in zip(samples, base, strict=True)
    ]


def cold_start(contender: Contender) -> Start:
    """From spawn to the first right answer, and the memory held once it has come to rest. Not pinned."""
    began = time.perf_counter()
    with serving(contender) as server:
        took = time.perf_counter() - began
        time.sleep(SETTLE_S)
        return Start(took, server.memory_mb())


def cold_starts(contenders: list[Contender], times: int) -> list[list[Start]]:
    """In turn, so many times each, after one that only fills the caches."""
    for contender in contenders:
        cold_start(contender)
    starts: list[list[Start]] = [[] for _ in contenders]
    for _ in range(times):
        for index, contender in enumerate(contenders):
            starts[index].append(cold_start(contender))
    return starts
