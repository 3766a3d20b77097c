"""`toolyard approvals`, `approve` and `reject`, and `toolyard call` that waits for them: with real processes."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from ..conformance.serving import environment
from .operated import until
from .processes import DEADLINE_S, Ended, command, serving, toolyard

TOOLS = '''
from toolyard import Toolkit

pay = Toolkit("Pay", version="1.0.0")


@pay.tool(approval="always")
def refund(order: str, cents: int) -> str:
    """Pays a customer back."""
    with open("paid", "a") as paid:
        paid.write(f"{order} {cents}\\n")
    return f"{cents} for {order}"
'''

CALL = {"tool_id": "Pay.Refund", "call_id": "k", "input": {"order": "7", "cents": 500}}


class Place:
    """A folder with the tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tools.py").write_text(TOOLS, encoding="utf-8")

    @property
    def paid(self) -> str:
        path = self.folder / "paid"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def serving(self) -> Any:
        return serving("tools.py", folder=self.folder)

    def toolyard(self, *arguments: str, **variables: str) -> Ended:
        return toolyard(*arguments, folder=self.folder, variables=variables)

    def waits(self) -> bool:
        return "Pay.Refund@1.0.0" in self.toolyard("approvals").out

    @contextmanager
    def calling(self, url: str) -> "Iterator[subprocess.Popen[str]]":
        arguments = command("call", "Pay.Refund", "order=7", "cents=500", "--server", url)
        with subprocess.Popen(
            arguments, cwd=self.folder, env=environment("open"), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as calling:  # fmt: skip
            try:
                yield calling
            finally:
                calling.kill()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_call_waits_and_ends_when_somebody_says_yes(place: Place) -> None:
    with place.serving() as served, place.calling(served.address) as calling:
        until(place.waits)
        shown = place.toolyard("approvals")
        assert '{"order":"7","cents":500}' in shown.out
        assert place.paid == ""
        assert place.toolyard("approve", "1").code == 0
        out, err = calling.communicate(timeout=DEADLINE_S)
        assert (calling.returncode, out) == (0, "500 for 7\n")
        assert f"waiting for approval: {served.address}/approvals/1-" in err
        assert place.paid == "7 500\n"
        again = place.toolyard("approve", "1")
        assert (again.code, "approved it already" in again.err) == (1, True)
        assert place.toolyard("approvals").out == "Nothing waits for approval\n"


def test_a_long_input_is_shown_in_part_and_what_is_not_shown_is_counted(place: Place) -> None:
    with place.serving() as served:
        for order in ("x" * 100_000, "8"):
            place.toolyard("call", "Pay.Refund", f"order={order}", "cents=5", "--no-wait", "--server", served.address)
        first = place.toolyard("approvals", "--limit", "1")
        assert len(first.out) < 6000
        assert "the first 4,000 of 100," in first.out
        assert first.err == "1 more call waits, not shown here; decide about these first, or see --limit\n"
        assert place.toolyard("approvals").err == ""


def test_who_does_not_want_to_wait_is_told_where_to_go(place: Place) -> None:
    with place.serving() as served:
        arguments = ("call", "Pay.Refund", "order=7", "cents=500", "--no-wait", "--server", served.address)
        ended = place.toolyard(*arguments)
        assert (ended.code, f"open {served.address}/approvals/1-" in ended.err) == (1, True)


def test_a_no_ends_it_with_its_reason(place: Place) -> None:
    with place.serving() as served, place.calling(served.address) as calling:
        until(place.waits)
        assert place.toolyard("reject", "1", "--reason", "wrong order").out.endswith("is rejected\n")
        _, err = calling.communicate(timeout=DEADLINE_S)
        assert (calling.returncode, "wrong order" in err, place.paid) == (1, True, "")


def test_what_waits_outlives_a_server_that_is_killed(place: Place) -> None:
    with place.serving() as served:
        asked = served.request("POST", "/tools/call", CALL)
        assert asked["missing_requirements"]["approval"] is True
        served.process.send_signal(SIGKILL)
        served.process.wait(DEADLINE_S)
    assert place.waits()
    assert place.toolyard("approve", "1").code == 0, "also while no server runs"
    entries = [json.loads(line) for line in place.toolyard("audit", "tail", "--json").out.splitlines()]
    (entry,) = [each for each in entries if each["kind"] == "approval"]
    said = ["approved", "an operator", "Pay.Refund@1.0.0", "k"]
    assert [entry[name] for name in ("code", "by", "tool", "call")] == said
    (line,) = [line for line in place.toolyard("audit", "tail").out.splitlines() if "approval" in line]
    assert line.endswith("approval  an operator  Pay.Refund@1.0.0  call k of default/local  approved")
    with place.serving() as served:
        until(lambda: place.paid == "7 500\n")
        assert served.request("POST", "/tools/call", CALL)["value"] == "500 for 7"
    assert place.paid == "7 500\n"
