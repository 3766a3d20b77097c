"""What large calls took is given back: a server does not stay as large as it ever was."""

import http.client
import json
from contextlib import ExitStack
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
CALLS, WAITING, LARGE, ROOM_MB = 40, 100, 3_900_000, 100


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def test_whoever_waits_for_a_call_holds_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    with (
        serving("tools.py", folder=tmp_path, variables={"TOOLYARD_SYNC_WAIT_S": "0.05"}) as served,
        ExitStack() as open_,
    ):
        before = resident_mb(served.process.pid)
        body = {"tool_id": "Till.Pay", "call_id": "bill", "input": {"bill": "p" * LARGE}}
        assert "waits for approval" in json.dumps(served.request("POST", "/tools/call", body))
        host, port = served.address.removeprefix("http://").split(":")
        for _ in range(WAITING):
            connection = http.client.HTTPConnection(host, int(port))
            open_.callback(connection.close)
            connection.request("GET", "/v1/calls/bill?wait=60")
        served.request("GET", "/v1/calls/bill")  # which the others have come before
        until(lambda: resident_mb(served.process.pid) - before < ROOM_MB)


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
