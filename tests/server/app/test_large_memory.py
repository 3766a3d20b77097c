"""What large calls took is given back: a server does not stay as large as it ever was."""

import json
from pathlib import Path
from typing import Any

from ...cli.processes import serving
from ...upstream.waiting import until

TOOLS = """
from toolyard import Toolkit

till = Toolkit("Till")


@till.tool(approval="always")
async def pay(bill: str) -> int:
    "Pays a bill."
    return 1
"""
CALLS, LARGE, ROOM_MB = 40, 3_900_000, 100


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def test_calls_that_wait_for_a_person_leave_nothing_in_memory(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with serving("tools.py", folder=tmp_path, variables={"TOOLYARD_SYNC_WAIT_S": "0.05"}) as served:
        before = resident_mb(served.process.pid)

        def made(number: int) -> Any:
            body = {"tool_id": "Till.Pay", "call_id": f"bill-{number}", "input": {"bill": f"{number:09}" + "p" * LARGE}}
            return served.request("POST", "/tools/call", body)

        for number in range(CALLS):
            assert "waits for approval" in json.dumps(made(number))
        until(lambda: resident_mb(served.process.pid) - before < ROOM_MB)
