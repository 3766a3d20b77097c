"""Tools in child processes: kept for the next call, killed when given up, and a crash stays their own."""

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolyard import Client, ToolError
from toolyard.runners.child import Lines
from toolyard.runners.loader import load
from toolyard.testing import async_client, client

TOOLS = str(Path(__file__).with_name("process_tools.py"))


@pytest.fixture(scope="module")
def yard() -> Iterator[Client]:
    with client(*load(TOOLS), processes=1) as bound:
        yield bound


def test_it_runs_in_another_process_which_is_kept(yard: Client) -> None:
    first = yard.call("Child.Pid")
    assert first != os.getpid()
    assert yard.call("Child.Pid") == first


def test_typed_values_go_there_and_back(yard: Client) -> None:
    assert yard.call("Child.Tomorrow", {"day": {"day": "2025-12-31"}}) == {"day": "2026-01-01"}


def test_it_knows_the_call_and_the_apps_resources(yard: Client) -> None:
    seen = yard.call("Child.Reveal", call_id="c-1", trace_id="t-1", user_id="u-1", secrets={"KEY": "k"})
    assert seen == ["c-1", "t-1", "u-1", "local", "k", "pool of a child"]


def test_a_failure_on_purpose_arrives_whole(yard: Client) -> None:
    with pytest.raises(ToolError, match="No") as failure:
        yard.call("Child.Refuse")
    error = failure.value
    assert (error.developer_message, error.can_retry, error.retry_after_ms) == ("never", True, 7)
    assert error.additional_prompt_content == "ask"


@pytest.mark.parametrize("tool", ["Child.Crash", "Child.Die", "Child.Close"])
def test_a_crash_is_a_tool_failure_and_the_next_call_works(yard: Client, tool: str) -> None:
    with pytest.raises(ToolError, match="failed unexpectedly") as failure:
        yard.call(tool)
    assert "secret" not in f"{failure.value} {failure.value.developer_message}"
    assert yard.call("Child.Pid") > 0


def test_a_call_that_takes_too_long_is_killed(yard: Client, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    yard.call("Child.Pid")  # a child that is ready: the time limit is for the tool
    with pytest.raises(ToolError, match=r"took longer than 0\.5 seconds"):
        yard.call("Child.Sleep", {"path": str(path)})
    with pytest.raises(ProcessLookupError):
        os.kill(int(path.read_text()), 0)


def test_children_end_with_the_server() -> None:
    with client(*load(TOOLS)) as short_lived:
        pid = short_lived.call("Child.Pid")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_closes_its_apps_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOSED", str(tmp_path / "closed"))
    with client(*load(TOOLS)) as short_lived:
        pid = short_lived.call("Child.Pid")
    assert set((tmp_path / "closed").read_text().split()) == {str(pid), str(os.getpid())}


def test_what_a_child_logs_is_in_the_servers_log(yard: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="toolyard.tool"):
        yard.call("Child.Tomorrow", {"day": {"day": "2025-12-31"}})
    assert "on it {'city': 'Paris'}" in caplog.text


def test_what_a_childs_own_loggers_say_does_nothing_to_a_terminal() -> None:
    record = logging.LogRecord("author", logging.ERROR, "f", 1, "%s\n", ("\x1b[2J\u202e",), None)
    assert Lines().format(record) == "\\u{1B}[2J\\u{202E}\n"


def test_with_show_exceptions_a_childs_error_reads_like_any_other() -> None:
    with client(*load(TOOLS), show_exceptions=True) as telling, pytest.raises(ToolError) as failure:
        telling.call("Child.Crash")
    assert failure.value.developer_message == "RuntimeError: a secret text"


def test_several_run_at_once() -> None:
    async def together() -> set[int]:
        async with async_client(*load(TOOLS), processes=2) as bound:
            return set(await asyncio.gather(*(bound.call("Child.Pid") for _ in range(6))))

    assert len(asyncio.run(together())) == 2
