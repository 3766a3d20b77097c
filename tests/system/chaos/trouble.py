"""What happens to processes and to their ledger while clients call."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from .ledgers import Ledger
from .processes import LEASE_S, NodeProcess, Process

AT_ONCE = 2
"""How many processes are in trouble at the same time, at most."""
PEACE_S, LEDGER_PEACE_S = 0.8, 4.0
"""The longest time between two troubles, on a machine that has nothing else to do."""
MOST_TOLD = 40
"""What clients are told meanwhile, so that trouble does not outrun them on one that has."""
AWAY_S = 0.5


class Troubles:
    """Makes trouble, counts it, and writes it down. Whatever it does to a process it undoes. `after` waits until so
    many things were told to clients: just after is the worst moment."""

    def __init__(
        self,
        processes: Sequence[Process],
        ledger: Ledger,
        after: Callable[[int], Awaitable[None]],
        random: random.Random,
        log: Path,
    ) -> None:
        self._processes, self._ledger, self._after = processes, ledger, after
        self._random, self._log = random, log
        self.made = Counter[str]()

    async def make(self, seconds: float) -> None:
        """For so long; after this everything is up again."""
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._make_until(until))
            if self._ledger.troubles:
                group.create_task(self._trouble_ledger_until(until))

    async def _make_until(self, until: float) -> None:
        ways: list[Callable[[Process], Awaitable[None]]] = [self._kill, self._pause, self._replace]
        while await self._goes_on(until, PEACE_S):
            process = self._any()
            (way,) = self._random.choices(ways, (4, 5, 1))
            process.is_in_trouble = True
            try:
                await way(process)
            finally:
                process.is_in_trouble = False

    async def _trouble_ledger_until(self, until: float) -> None:
        while await self._goes_on(until, LEDGER_PEACE_S):
            name, trouble = self._random.choice(list(self._ledger.troubles.items()))
            self._count(name, "the ledger")
            await trouble()

    def _any(self) -> Process:
        """A node rather than a worker, but seldom all the nodes."""
        free = [each for each in self._processes if not each.is_in_trouble]
        is_first = not any(isinstance(each, NodeProcess) and each.is_in_trouble for each in self._processes)
        node = 2.0 if is_first else 0.2
        (process,) = self._random.choices(free, [node if isinstance(each, NodeProcess) else 1.0 for each in free])
        return process

    async def _goes_on(self, until: float, longest_s: float) -> bool:
        try:
            async with asyncio.timeout_at(until):
                await asyncio.sleep(self._random.uniform(0.05, longest_s))
                await self._after(self._random.randint(1, MOST_TOLD))
        except TimeoutError:
            return False
        return True

    async def _kill(self, process: Process) -> None:
        self._count("kills", process.run_name)
        process.kill()
        await asyncio.sleep(self._random.uniform(0.0, AWAY_S))
        await process.start()

    async def _pause(self, process: Process) -> None:
        """Mostly for longer than it is taken to be alive. Some never wake up."""
        self._count("pauses", process.run_name)
        process.tell(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * self._random.uniform(0.7, 2.2))
        if self._random.random() < 0.2:
            await self._kill(process)
        else:
            process.tell(signal.SIGCONT)

    async def _replace(self, process: Process) -> None:
        self._count("orderly restarts", process.run_name)
        await process.leave()
        await process.start()

    def _count(self, trouble: str, whose: str) -> None:
        self.made[trouble] += 1
        with self._log.open("a") as log:
            log.write(f"{time.time():.3f} {trouble}: {whose}\n")
