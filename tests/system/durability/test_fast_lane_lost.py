"""What `kill -9` takes from calls without a key: at most those since the last flush. What was written, or read, stays
whole, and the ledger goes on after it."""

import json
from pathlib import Path
from signal import SIGKILL
from urllib.request import Request, urlopen

import pytest

from tests.cli.operated import Yard

ROUNDS, CALLS = 2, 40


def call(address: str, text: str) -> str:
    """The id that the server gave the call."""
    body = json.dumps({"tool_id": "Kit.Quick", "input": {"text": text}}).encode()
    with urlopen(Request(f"{address}/tools/call", body, {"content-type": "application/json"}), timeout=30) as reply:
        return str(json.load(reply)["call_id"])


def listed(address: str) -> list[str]:
    with urlopen(f"{address}/v1/calls?limit=200", timeout=30) as reply:
        return [each["callId"] for each in json.load(reply)["calls"]]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_what_was_written_stays_and_what_was_not_is_lost_whole(yard: Yard) -> None:
    seen: list[str] = []
    for round in range(ROUNDS):
        with yard.serving() as served:
            made = [call(served.address, f"{round}-{number}") for number in range(CALLS)]
            seen = [*reversed(made), *seen]
            assert listed(served.address) == seen, "all that this node made, the newest first, at once"
            late = [call(served.address, f"late-{round}-{number}") for number in range(3)]
            assert served.end(SIGKILL) == -SIGKILL
        with yard.serving() as served:
            there = listed(served.address)
            kept = [each for each in there if each in late]
            assert kept == list(reversed(late))[len(late) - len(kept) :], "the last are lost, and none between"
            assert there == [*kept, *seen]
            seen = there
            assert served.end() == 0
    assert yard.toolyard("audit", "verify").code == 0
