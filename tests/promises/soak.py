"""`make soak`: the machine for `PROMISES_MINUTES` (10), on each kind of ledger in turn, with new seeds.

A failure ends it, with the walk that broke a promise, and the seed with which it is taken again (`PROMISES_SEED`).
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import randbits
from tempfile import TemporaryDirectory
from typing import Any

from tests import leftovers
from tests.postgres import OwnServer, Server

from .ledgers import Ledger, PostgresLedger, SqliteLedger
from .machine import Machine
from .wandering import wander

STEPS = 100


@contextmanager
def ledgers() -> Iterator[dict[str, Callable[[], Ledger]]]:
    given = os.environ.get("TOOLYARD_TEST_POSTGRES")
    server = Server(given) if given else OwnServer()
    server.prepare()
    with TemporaryDirectory(prefix="promises-") as folder:
        try:
            yield {"sqlite": lambda: SqliteLedger(Path(folder)), "postgres": lambda: PostgresLedger(server)}
        finally:
            server.close()


def main() -> None:
    """One walk after another, until the time is over."""
    leftovers.watch()
    minutes = float(os.environ.get("PROMISES_MINUTES") or 10)
    first = int(os.environ.get("PROMISES_SEED") or randbits(31))
    until, number = time.monotonic() + minutes * 60, first
    with ledgers() as kinds:
        while time.monotonic() < until:
            kind = sorted(kinds)[number % 2]
            _say(f"promises: {kind}, PROMISES_SEED={number}, {STEPS} steps")
            wander(_machine_on(kinds[kind]), number, STEPS)
            number += 1
    _say(f"promises: {number - first} walks, and every promise held")


def _machine_on(new_ledger: Callable[[], Ledger]) -> type[Machine]:
    class Here(Machine):
        def new_ledger(self) -> Any:
            return new_ledger()

    return Here


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
