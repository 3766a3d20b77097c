"""One run: start everything, let clients call while there is trouble, let it become quiet, and show the checker what
was witnessed."""

import asyncio
import os
import random
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from .asking import Caller
from .checker import check
from .hands import Hand
from .history import History, Recorder, read_effects
from .keyed import KeyedClient
from .ledgers import Kind, Ledger
from .processes import CALLERS, TOTAL_S, NodeProcess, Process, WorkerProcess, ended_at_last
from .sessions import SessionClient
from .trouble import Troubles

KEYED_CLIENTS, SESSION_CLIENTS, HANDS, WORKERS = 8, 3, 2, 2
SHOWN = 5
"""Of what is wrong, of each kind."""
QUIET_S = 2 * TOTAL_S
"""When every call that was made has ended: its total limit, and as much again for a machine that is slow."""


class Client(Protocol):
    caller: Caller
    calls: int
    under_way: str

    async def until(self, stop: asyncio.Event) -> None:
        """Ends the call that is under way first."""
        ...


class Report(Struct):
    """What was done, and what was wrong."""

    calls: int
    effects: int
    heard: Counter[str]
    """What was written down, by kind."""
    asked: Counter[str]
    troubles: Counter[str]
    ended: Counter[str]
    wrong: dict[str, list[str]]

    def add(self, other: "Report") -> None:
        self.calls += other.calls
        self.effects += other.effects
        self.heard += other.heard
        self.asked += other.asked
        self.troubles += other.troubles
        self.ended += other.ended
        self.wrong = {name: lines + other.wrong[name] for name, lines in self.wrong.items()}

    @property
    def is_clean(self) -> bool:
        return not any(self.wrong.values())

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls, {self.effects} effects; {_listed(self.heard)}",
            f"troubles: {_listed(self.troubles)}",
            f"requests: {_listed(self.asked)}",
            f"ended as: {_listed(self.ended)}",
            *(f"{name}: {len(found)}" for name, found in self.wrong.items()),
            *(f"  {name}: {line}" for name, found in self.wrong.items() for line in found[:SHOWN]),
        ]
        return "\n".join(lines)


def seed() -> int:
    """Of all that is left to chance here: TOOLYARD_TEST_SEED, or any. What other processes do is not."""
    chosen = int(os.environ.get("TOOLYARD_TEST_SEED") or random.SystemRandom().randrange(10**9))
    sys.stdout.write(f"TOOLYARD_TEST_SEED={chosen}\n")
    return chosen


async def run(kind: Kind, folder: Path, seconds: float, seed: int) -> Report:
    """Trouble for so long, and then as long as it takes until everything has ended."""
    recorder, effects, chance = Recorder(folder / "events.jsonl"), folder / "effects.jsonl", random.Random(seed)
    async with AsyncExitStack() as stack:
        stack.callback(recorder.close)
        ledger = await stack.enter_async_context(kind(folder))
        nodes = [NodeProcess(f"node-{name}", folder, ledger.store, effects) for name in "ab"[: ledger.nodes]]
        workers = [
            WorkerProcess(f"worker-{number}", folder, nodes[number % len(nodes)], effects) for number in range(WORKERS)
        ]
        processes: list[Process] = [*nodes, *workers]
        stack.enter_context(ended_at_last(processes))
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(process.start())
        crowd = Crowd(nodes, recorder, effects, chance)
        stack.push_async_callback(crowd.close)
        troubles = Troubles(processes, ledger, recorder.after, chance, folder / "troubles.log")
        await crowd.live_through(troubles.make(seconds), ledger)
        for process in processes:
            process.kill()
        history = History(recorder.events, read_effects(effects), await ledger.rows())
    return Report(
        crowd.calls,
        len(history.effects),
        Counter(type(event).__name__.lower() for event in recorder.events),
        crowd.asked,
        troubles.made,
        Counter(row.code or row.state for row in history.rows),
        check(history),
    )


class Crowd:
    """Everybody who calls, and who works by hand."""

    def __init__(self, nodes: list[NodeProcess], recorder: Recorder, effects: Path, chance: random.Random) -> None:
        self._callers = [Caller(who, nodes, recorder, random.Random(chance.random())) for who in CALLERS]
        pairs = list(zip(self._callers, reversed(self._callers), strict=True))
        self._clients: list[Client] = [
            *(KeyedClient(number, one, other) for one, other in pairs for number in range(KEYED_CLIENTS)),
            *(SessionClient(number, one, other) for one, other in pairs for number in range(SESSION_CLIENTS)),
        ]
        self._hands = [
            Hand(f"hand-{caller.who}-{number}", caller, effects, recorder.add)
            for caller in self._callers
            for number in range(HANDS)
        ]

    async def live_through(self, trouble: "asyncio._CoroutineLike[None]", ledger: Ledger) -> None:
        """Clients begin nothing more once the trouble is over, and the hands are steady then."""
        over, ended = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for hand in self._hands:
                group.create_task(hand.until(ended))
            clients = {group.create_task(client.until(over)): client for client in self._clients}
            await group.create_task(trouble)
            over.set()
            for hand in self._hands:
                hand.is_calm = True
            _, waiting = await asyncio.wait(clients, timeout=QUIET_S)
            for task in waiting:
                clients[task].caller.never_told(clients[task].under_way)
                task.cancel()
            await self._quiet(ledger)
            ended.set()

    async def _quiet(self, ledger: Ledger) -> None:
        """Until nothing is open in the ledger, or everything should have ended long ago."""
        until = asyncio.get_running_loop().time() + QUIET_S
        while await ledger.open_calls() and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.1)

    @property
    def calls(self) -> int:
        return sum(client.calls for client in self._clients)

    @property
    def asked(self) -> Counter[str]:
        return sum((caller.asked for caller in self._callers), Counter[str]())

    async def close(self) -> None:
        for caller in self._callers:
            await caller.close()


def _listed(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counted.items())) or "none"
