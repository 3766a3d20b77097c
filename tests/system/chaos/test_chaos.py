"""Real nodes, workers and databases that are killed, paused and restarted under load: no promise is broken.

`make soak` does the same for longer.
"""

import asyncio
from pathlib import Path

import pytest

from .ledgers import Kind, postgres, sqlite
from .run import run, seed

SECONDS = 5.0


@pytest.mark.parametrize("kind", [sqlite, postgres])
def test_promises_hold_whatever_happens(kind: Kind, tmp_path: Path) -> None:
    chosen = seed()
    report = asyncio.run(run(kind, tmp_path, SECONDS, chosen))
    assert report.is_clean, f"TOOLYARD_TEST_SEED={chosen}, what was witnessed is in {tmp_path}\n{report}"
