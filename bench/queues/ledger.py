"""toolyard's ledger as a queue, in either store: `python ledger.py sqlite:FILE|postgresql://…`.

Each worker claims a hundred, renews them in one write, and answers each on its own, all at once: what a server does for
a hundred requests over HTTP. Every write names its attempt, and every call is kept with its input and result.
"""

import asyncio
import sys
import time
from itertools import count
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from bench.queues.jobs import OFFER, enqueue, opened
from bench.queues.line import follow

from toolyard.model.judge import Verdict
from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.model.writes import DIRECT, Answer, Claimant, HeartbeatWrite
from toolyard.server.app.run import collect_garbage_rarely
from toolyard.store.contract import Store
from toolyard.store.values import ClaimFilter

DONE = Ending(State.COMPLETE, "success", 1.0, value=b'{"sum":15}')


async def work(store: Store, name: str, batch: int) -> int:
    """Until nothing is left. How many it did."""
    who, done = Claimant("default", "robot", name, frozenset({OFFER})), 0
    while claims := await store.claim(ClaimFilter(who, limit=batch)):
        require(await store.beat([HeartbeatWrite(DIRECT, call.request or "", who, call.attempt) for call in claims]))
        answers = [Answer(DIRECT, call.request or "", who, DONE, b"digest", call.attempt) for call in claims]
        require(await asyncio.gather(*map(store.answer, answers)))
        done += len(claims)
    return done


def require(verdicts: list[Verdict | None]) -> None:
    if not all(verdict and verdict.reason is None for verdict in verdicts):
        raise RuntimeError("a write was refused")


async def main(address: str) -> None:
    store, numbers = await opened(address), count(time.time_ns())
    collect_garbage_rarely()  # as a server does

    async def fill(told: dict[str, int]) -> int:
        return await enqueue(store, numbers, told["jobs"])

    async def empty(told: dict[str, int]) -> int:
        return sum(await asyncio.gather(*(work(store, f"w{n}", told["batch"]) for n in range(told["workers"]))))

    try:
        await follow(fill, empty)
    finally:
        await store.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
