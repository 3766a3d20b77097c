"""pgqueuer as a queue: its own statements for enqueueing, dequeueing, heartbeats and completion, many jobs in each.

They are called directly, without the task that its QueueManager makes for each job, which would only cost it time. A
job that is done is deleted; its log keeps a line of it.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import EntrypointExecutionParameter, Queries

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "queues"))

from line import follow

PAYLOAD = b'{"a": 10, "b": 5}'
ENQUEUED_AT_ONCE = 500
MOST_WORKERS = 4


async def work(queries: Queries, batch: int) -> int:
    mine, entrypoints, done = uuid4(), {"job": EntrypointExecutionParameter(0)}, 0
    while jobs := await queries.dequeue(batch, entrypoints, mine, None, timedelta(seconds=30)):
        await queries.update_heartbeat([job.id for job in jobs])
        await queries.log_jobs([(job, "successful", None) for job in jobs])
        done += len(jobs)
    return done


async def main(url: str) -> None:
    connections = [await asyncpg.connect(url) for _ in range(MOST_WORKERS)]
    queues = [Queries(AsyncpgDriver(connection)) for connection in connections]
    await queues[0].install()

    async def fill(told: dict[str, int]) -> int:
        made = 0
        while made < told["jobs"]:
            some = min(ENQUEUED_AT_ONCE, told["jobs"] - made)
            made += len(await queues[0].enqueue(["job"] * some, [PAYLOAD] * some, [0] * some))
        return made

    async def empty(told: dict[str, int]) -> int:
        return sum(await asyncio.gather(*(work(each, told["batch"]) for each in queues[: told["workers"]])))

    try:
        await follow(fill, empty)
    finally:
        for connection in connections:
            await connection.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
