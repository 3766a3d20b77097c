"""A served process whose threads die goes on, and ends when it is told to."""

from pathlib import Path
from signal import SIGTERM
from typing import Any

from .processes import Served, serving

TOOLS = '''
import ctypes, threading
from toolyard import Toolkit

kit = Toolkit("Kit")


class Died(BaseException):
    pass


@kit.tool
async def kill(name: str) -> int:
    """Has something raised in the server's threads of that name."""
    found = [each for each in threading.enumerate() if each.name == name]
    for each in found:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(each.ident), ctypes.py_object(Died))
    return len(found)


@kit.tool
async def tie(items: list[list[int]]) -> int:
    """Makes its input contain itself."""
    items.append(items)
    return len(items)


@kit.tool
async def fail() -> None:
    """Fails."""
    raise RuntimeError("it failed")
'''


TIE = {"tool_id": "Kit.Tie", "input": {"items": [[1]]}}
KILL = {"tool_id": "Kit.Kill", "input": {"name": "toolyard-ledger-writer"}}


def test_keyed_calls_go_on_after_an_input_that_contains_itself(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        for number in range(3):
            assert served.request("POST", "/tools/call", TIE)["value"] == 2
            assert served.request("POST", "/tools/call", {**TIE, "call_id": f"key-{number}"})["value"] == 2
        assert served.request("GET", "/health") == {"status": "ok"}
        assert served.end(SIGTERM) == 0


def value(served: Served, call: dict[str, Any]) -> Any:
    """What a call returns that is made again for as long as the server says so: what the thread was about to write when
    it died is asked for again, and so is all that comes before the server knows that its ledger can be used again."""
    while "value" not in (answer := served.request("POST", "/tools/call", call)):
        assert answer["retry_after_ms"] > 0
    return answer["value"]


def test_a_server_whose_thread_died_serves_on_and_ends(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        assert value(served, KILL) == 1
        assert value(served, {**TIE, "call_id": "key"}) == 2
        assert value(served, KILL) == 1
        assert served.end(SIGTERM) == 0


def test_the_log_goes_on_after_its_thread_died(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=tmp_path) as served:
        assert value(served, {**KILL, "input": {"name": "toolyard-log"}}) == 1
        for _ in range(2):  # a thread that waits for a line dies when there is one
            assert "error" in served.request("POST", "/tools/call", {"tool_id": "Kit.Fail", "input": {}})
        served.hear("log died and is started again")
        assert "error" in served.request("POST", "/tools/call", {"tool_id": "Kit.Fail", "input": {}})
        served.hear("RuntimeError: it failed")
        assert served.end(SIGTERM) == 0
