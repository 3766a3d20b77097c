"""`make soak`: the same for many minutes, on each ledger in turn, and a report."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ... import leftovers
from .ledgers import postgres, sqlite
from .run import Report, run, seed

ROUND_S = 60.0


def main() -> None:
    """Rounds of a minute, each with a seed of its own, until the time is over."""
    leftovers.watch()
    minutes = float(os.environ.get("SOAK_MINUTES") or 10)
    first = seed()
    rounds = max(1, round(minutes * 60 / ROUND_S))
    total: Report | None = None
    for number in range(rounds):
        kind = (postgres, sqlite)[number % 2]
        folder = Path(tempfile.mkdtemp(prefix="toolyard-soak-"))
        _say(f"round {number + 1} of {rounds}: {kind.__name__}, TOOLYARD_TEST_SEED={first + number}, {folder}")
        report = asyncio.run(run(kind, folder, min(ROUND_S, minutes * 60), first + number))
        _say(f"{report}\n")
        if report.is_clean:
            shutil.rmtree(folder)
        if total is None:
            total = report
        else:
            total.add(report)
    _say(f"in all:\n{total}")
    sys.exit(0 if total is not None and total.is_clean else 1)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
