"""The calls of a worker's tool that a ledger is filled with."""

import asyncio
from itertools import count

from toolyard.model.record import CallKey, NewCall
from toolyard.model.worker import offer_of
from toolyard.model.writes import DIRECT
from toolyard.store.contract import Store
from toolyard.store.sqlite.store import SqliteStore

TOOL = "Jobs.Job"
REFERENCE = f"{TOOL}@1.0.0"
OFFER = offer_of(REFERENCE, ("default", "robot"), b"{}")
"""As the worker makes it that the calls are for."""
INPUT = b'{"a": 10, "b": 5}'
CALLERS = 500
"""How many of them call at once."""


async def opened(address: str) -> Store:
    store = made(address)
    await store.open()
    return store


def made(address: str) -> Store:
    kind, _, path = address.partition(":")
    if kind == "sqlite":
        return SqliteStore(path, "bench")
    from toolyard.store.postgres.store import PostgresStore

    return PostgresStore(address, "bench")


async def enqueue(store: Store, numbers: "count[int]", many: int, offer: str = OFFER) -> int:
    """Each in a write of its own, as callers make them. How many there were."""
    made = 0
    while made < many:
        some = min(CALLERS, many - made)
        begun = await asyncio.gather(*(store.begin(new_call(next(numbers), offer)) for _ in range(some)))
        made += sum(one.seq > 0 for one in begun)
    return made


def new_call(number: int, offer: str) -> NewCall:
    key = CallKey("default", "caller", "oxp", f"job-{number:012d}")
    return NewCall(
        key,
        False,
        "oxp",
        TOOL,
        REFERENCE,
        INPUT,
        queue="worker",
        session=DIRECT,
        queue_s=3600.0,
        total_s=7200.0,
        offer=offer,
    )
