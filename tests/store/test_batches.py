"""Writes that PostgreSQL's ledger makes together: which of them go at the same time, and what each is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from toolyard.store.postgres.batches import LARGE, Batches
from toolyard.supervision import Supervisor

pytestmark = pytest.mark.usefixtures("runner")


class Sent:
    """The batches that were sent, in order, each with what ends it."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[int], asyncio.Future[None]]] = []

    @property
    def sizes(self) -> list[int]:
        return [len(numbers) for numbers, _ in self.batches]

    async def make(self, numbers: list[int]) -> list[int]:
        done = asyncio.get_running_loop().create_future()
        self.batches.append((numbers, done))
        await done
        return [-number for number in numbers]

    def end(self, batch: int) -> None:
        self.batches[batch][1].set_result(None)


@asynccontextmanager
async def sending(sent: Sent, lanes: int) -> AsyncIterator[Batches[int, int]]:
    batches = Batches("numbers", sent.make, lanes=lanes)
    batches.start(Supervisor())
    yield batches
    for _, done in sent.batches:
        if not done.done():
            done.set_result(None)
    await batches.close()


async def turns() -> None:
    """Whatever can go on now has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_large_batch_does_not_wait_for_the_one_before_it_and_a_small_one_does() -> None:
    sent = Sent()
    async with sending(sent, lanes=2) as batches:
        first = batches.submit_one(1)
        await turns()
        few = [batches.submit_one(number) for number in range(LARGE - 1)]
        await turns()
        assert sent.sizes == [1]
        few.append(batches.submit_one(LARGE))
        await turns()
        assert sent.sizes == [1, LARGE]
        third = batches.submit(range(2 * LARGE))
        await turns()
        assert sent.sizes == [1, LARGE], "there are two lanes"
        sent.end(1)
        assert await asyncio.gather(*few) == [*(-number for number in range(LARGE - 1)), -LARGE]
        await turns()
        assert sent.sizes == [1, LARGE, 2 * LARGE]
        sent.end(2)
        assert await third == [-number for number in range(2 * LARGE)]
        assert not first.done()
        sent.end(0)
        assert await first == -1


async def test_what_has_one_lane_goes_one_after_the_other() -> None:
    sent = Sent()
    async with sending(sent, lanes=1) as batches:
        both = [batches.submit(range(LARGE)), batches.submit([])]
        await turns()
        later = batches.submit(range(2 * LARGE))
        await turns()
        assert sent.sizes == [LARGE]
        sent.end(0)
        await turns()
        assert [await each for each in both] == [[-number for number in range(LARGE)], []]
        assert sent.sizes == [LARGE, 2 * LARGE]
        sent.end(1)
        assert len(await later) == 2 * LARGE
