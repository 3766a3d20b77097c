"""The short version of what `make soak` does with 10,000 calls."""

import asyncio
from pathlib import Path

from .rolling import WIRES, roll


def test_nodes_that_are_replaced_one_after_the_other_lose_no_call(tmp_path: Path, postgres_url: str) -> None:
    report = asyncio.run(roll(tmp_path, postgres_url, least=500))
    assert not report.lost, str(report)
    assert set(report.by_wire) == set(WIRES)
