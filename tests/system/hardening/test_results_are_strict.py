"""A result that is not what its tool promised, or no JSON, is a failure of the tool. Only the log is told why."""

import json
import logging
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.conformance.serving import running
from toolyard.authoring.options import camel_case

from .broken import RESULTS, SECRET, kit
from .inprocess import InProcess, inprocess
from .raw import Reply, ask, request

FILE = str(Path(__file__).with_name("broken.py"))
PATHS = {"/tools/call": "", "/otc/tools/call": "result", "/otc/draft/call": "output"}


@pytest.fixture(scope="module")
def app() -> Iterator[InProcess]:
    with inprocess(kit) as app:
        yield app


def assert_failed(reply: Reply, tool_id: str) -> None:
    """200, `success: false`, and not a word about why."""
    assert (reply.status, reply.json["success"]) == (200, False), reply
    assert reply.json["error"] == {"message": f"{tool_id} failed unexpectedly", "can_retry": False}
    assert "value" not in reply.json


def assert_breaks(app: InProcess, name: str, runs: str, said: str, caplog: pytest.LogCaptureFixture) -> None:
    tool_id = f"Broken.{camel_case(f'{name}_{runs}')}"
    with caplog.at_level(logging.ERROR, "toolyard"):
        assert_failed(app.call(tool_id), tool_id)
    [record] = caplog.records
    assert tool_id in record.getMessage()
    assert said in caplog.text


@pytest.mark.parametrize("runs", ["inline", "thread"])
@pytest.mark.parametrize("name", RESULTS)
def test_a_broken_result_is_a_failure_and_the_log_says_where(
    app: InProcess, name: str, runs: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert_breaks(app, name, runs, RESULTS[name][2], caplog)


def test_what_is_large_or_strange_but_json_is_a_result(app: InProcess) -> None:
    reply = app.call("Broken.Fine")
    numbers = [1.7976931348623157e308, 5e-324, 2**64, -(2**63), 10**300]
    assert reply.json["value"] == {"numbers": numbers, "text": "null 🙂\x00", "none": None}


@pytest.mark.parametrize("name", ["an_exception", "a_system_exit", "a_memory_error", "a_group"])
@pytest.mark.parametrize("path", PATHS)
def test_the_text_of_an_exception_reaches_no_reply(app: InProcess, path: str, name: str) -> None:
    call = {"tool_id": f"Broken.{camel_case(f'{name}_inline')}"}
    reply = app.post(path, {"request": call} if PATHS[path] else call)
    assert reply.status == 200
    assert SECRET not in reply.body.decode() + str(reply.headers)


def test_the_text_of_an_exception_is_shown_to_developers_who_ask_for_it() -> None:
    with inprocess(kit, show_exceptions=True) as app:
        error = app.call("Broken.AnExceptionInline").json["error"]
    assert SECRET in error["developer_message"]
    assert SECRET not in error["message"]


@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_real_server_goes_on_and_its_log_has_the_reason(tmp_path: Path, is_keyed: bool) -> None:
    with running("open", tmp_path, [FILE]) as address:
        for name, runs in product(RESULTS, ["inline", "thread"]):
            tool_id = f"Broken.{camel_case(f'{name}_{runs}')}"
            body = json.dumps({"tool_id": tool_id} | ({"call_id": tool_id} if is_keyed else {})).encode()
            assert_failed(ask(address, request("POST", "/tools/call", body=body)), tool_id)
        assert ask(address, request()).status == 200
        [log] = tmp_path.glob("server-*.log")
        text = log.read_text(encoding="utf-8")
    for _, _, said in RESULTS.values():
        assert said in text
