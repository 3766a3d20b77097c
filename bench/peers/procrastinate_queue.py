"""procrastinate as a queue: its worker, with as many jobs at once as it is told. It keeps the rows of finished jobs."""

import logging
import sys
from pathlib import Path

import uvloop
from procrastinate import App, PsycopgConnector

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "queues"))

from line import follow

ENQUEUED_AT_ONCE = 500


async def main(url: str) -> None:
    logging.getLogger("procrastinate").setLevel("ERROR")
    app, done = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=8)), []

    @app.task(name="job")
    async def job(a: int, b: int) -> int:
        done.append(a + b)
        return a + b

    async def fill(told: dict[str, int]) -> int:
        made = 0
        while made < told["jobs"]:
            some = min(ENQUEUED_AT_ONCE, told["jobs"] - made)
            made += len(await job.batch_defer_async(*[{"a": 10, "b": 5}] * some))
        return made

    async def empty(told: dict[str, int]) -> int:
        done.clear()
        await app.run_worker_async(
            wait=False, concurrency=told["batch"], install_signal_handlers=False, listen_notify=False
        )
        return len(done)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await follow(fill, empty)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
