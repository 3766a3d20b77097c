"""Queues side by side: each in a process of its own, told by lines what to do, one at a time and in turn."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.contenders import HERE, Installed
from bench.measure import SERVER_CORE
from bench.servers import ServerError, stop

OURS = str(HERE / "queues" / "ledger.py")
BATCH, WORKERS = 100, 4


@dataclass(frozen=True)
class Plan:
    """How many jobs a round has, and how they are worked on: so many at once, by so many."""

    jobs: int
    batch: int = BATCH
    workers: int = WORKERS


@dataclass(frozen=True)
class Lane:
    """A queue that is up, and its plan."""

    name: str
    plan: Plan
    process: "subprocess.Popen[str]"
    log: Path

    def turn(self) -> "Turn":
        """Fills the queue and empties it."""
        return Turn(self._rate("enqueue"), self._rate("work"))

    def planned(self, plan: Plan) -> "Lane":
        return replace(self, plan=plan)

    def hear(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        said = json.loads(line) if line else {"error": self._last_words()}
        if "error" in said:
            raise ServerError(f"{self.name}: {said['error']}")
        return said

    def _rate(self, do: str) -> float:
        assert self.process.stdin
        told = {"do": do, "jobs": self.plan.jobs, "batch": self.plan.batch, "workers": self.plan.workers}
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        return self.plan.jobs / float(self.hear()["seconds"])

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"


@dataclass(frozen=True)
class Turn:
    """Jobs a second."""

    enqueued: float
    worked: float


@contextmanager
def lane(name: str, plan: Plan, command: Sequence[str], core: int = SERVER_CORE) -> Iterator[Lane]:
    """Up and ready; gone when the block is left."""
    with tempfile.TemporaryDirectory(prefix="bench-queue-") as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True
            )
        os.sched_setaffinity(process.pid, {core})
        try:
            made = Lane(name, plan, process, log)
            made.hear()
            yield made
        finally:
            stop(process)


def of_ledger(address: str) -> list[str]:
    return [sys.executable, OURS, address]


def of_peer(peer: Installed, url: str) -> list[str]:
    return [str(peer.python), str(HERE / "peers" / peer.script), url]


def best(tried: Lane, batches: Sequence[int], workers: Sequence[int], rounds: int = 3) -> Lane:
    """With the plan that it works fastest by."""
    plans = [replace(tried.plan, batch=batch, workers=some) for batch in batches for some in workers]
    lanes = [tried.planned(plan) for plan in plans]
    turns = in_turn(lanes, rounds)
    return max(zip(lanes, turns, strict=True), key=lambda each: statistics.median(turn.worked for turn in each[1]))[0]


def in_turn(lanes: Sequence[Lane], rounds: int) -> list[list[Turn]]:
    """For each its turns, one a round; the order alternates."""
    turns: list[list[Turn]] = [[] for _ in lanes]
    for number in range(rounds):
        order = range(len(lanes)) if number % 2 == 0 else reversed(range(len(lanes)))
        for index in order:
            turns[index].append(lanes[index].turn())
    return turns
