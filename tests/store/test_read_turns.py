"""Turns for long reads of the ledger."""

import asyncio
import gc
from collections import Counter

from toolyard.store.read_turns import ReadTurns

READS = 5


async def test_each_caller_reads_one_at_a_time_and_few_read_at_once(runner: asyncio.Runner) -> None:
    reads, reading, most, ended = ReadTurns(2), Counter[str](), Counter[str](), list[str]()

    async def read(subject: str) -> None:
        async with reads.turn("acme", subject), reads.step:
            for each in (subject, "all"):
                reading[each] += 1
                most[each] = max(most[each], reading[each])
            await asyncio.sleep(0)
            reading.subtract((subject, "all"))
            ended.append(subject)

    loud = [read("eve") for _ in range(READS)]
    await asyncio.gather(*loud, read("ada"), read("bob"))
    assert most == {"eve": 1, "ada": 1, "bob": 1, "all": 2}
    assert set(ended[:4]) >= {"ada", "bob"}, "nobody waits for all of another's"


async def test_who_gives_up_takes_no_turn(runner: asyncio.Runner) -> None:
    reads = ReadTurns(1)

    async def read() -> None:
        async with reads.turn("acme", "eve"):
            pass

    async with reads.turn("acme", "eve"):
        waiting = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    await asyncio.wait(waiting)
    assert [each.cancelled() for each in waiting] == [True, False]
    waiting.clear()
    gc.collect()
    assert not reads._own, "nobody is remembered who wants nothing"
