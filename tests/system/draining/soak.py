"""`make soak`: nodes are replaced one after the other until 10,000 calls were made, none of which may be lost."""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from ... import leftovers
from ..chaos.ledgers import postgres
from .rolling import Report, roll

CALLS = 10_000


def main() -> None:
    leftovers.watch()
    folder = Path(tempfile.mkdtemp(prefix="toolyard-rolling-"))
    report = asyncio.run(_run(folder))
    sys.stdout.write(f"replacing nodes: {report}\n")
    if not report.lost:
        shutil.rmtree(folder)
    sys.exit(1 if report.lost else 0)


async def _run(folder: Path) -> Report:
    async with postgres(folder) as ledger:
        return await roll(folder, ledger.store, least=CALLS)


if __name__ == "__main__":
    main()
