"""Calls that wait for a person, where there is no server: what is said is true, and says what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard import MissingRequirements
from toolyard.runners.loader import load
from toolyard.testing import client

from ..runners.imports import forgetting
from .processes import Ended, toolyard

Run = Callable[..., Ended]
TOOLS = """
from toolyard import Toolkit

pay = Toolkit("Pay", version="1.0.0")


@pay.tool(approval="always")
def refund(order: str) -> str:
    \"\"\"Pays a customer back.\"\"\"
    raise AssertionError("nobody agreed")


@pay.tool
def look() -> int:
    \"\"\"Needs nobody.\"\"\"
    return 1
"""
CALL = {"name": "Pay_Refund", "arguments": {"order": "7"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hold(folder: Path) -> None:
    """A call of each in the ledger; the first one waits. Nobody has the ledger then."""
    with forgetting(folder), client(*load("tools.py"), store="sqlite:toolyard.db") as bound:
        with pytest.raises(MissingRequirements):
            bound.call("Pay.Refund", {"order": "7"})
        assert bound.call("Pay.Look", call_id="k") == 1


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_file_has_no_server_that_could_ask(here: Run, folder: Path, more: list[str]) -> None:
    ended = here("call", "--file", "tools.py", "Pay.Refund", "order=7", *more)
    assert ended.code == 1
    assert "nobody can give it here: with --file" in ended.out + ended.err
    assert "toolyard serve tools.py" in ended.out + ended.err
    assert "http" not in ended.out + ended.err


def test_over_pipes_nobody_is_sent_to_an_address_that_does_not_know_the_call(folder: Path) -> None:
    begin = {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}},
        "clientInfo": {"name": "x", "version": "1"},
    }  # fmt: skip
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL},
    ]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    variables = {"TOOLYARD_PUBLIC_URL": "https://tools.example", "XDG_STATE_HOME": str(folder / "state")}
    ended = toolyard("stdio", "tools.py", folder=folder, input=lines, variables=variables)
    result = json.loads(ended.out.splitlines()[-1])["result"]
    assert result["isError"] is True
    assert "over pipes there is no page for it; serve these tools over HTTP" in result["content"][0]["text"]


def test_without_a_server_there_is_no_page_and_an_operator_decides(here: Run, folder: Path) -> None:
    hold(folder)
    shown = here("approvals")
    assert "page  none without a running server, or public_url; to decide here: toolyard approve 1\n" in shown.out
    assert ("http" in shown.out, "url" in here("approvals", "--json").out) == (False, False)
    not_asked = here("approve", "2")
    assert (not_asked.code, not_asked.err) == (1, "The call has ended as success; nobody had to agree to it\n")
    assert here("reject", "1").code == 0


def test_with_an_address_that_is_set_the_page_is_there(
    here: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(folder)
    monkeypatch.setenv("TOOLYARD_PUBLIC_URL", "https://tools.example")
    assert "page  https://tools.example/approvals/1-" in here("approvals").out


def test_a_server_elsewhere_has_another_ledger(here: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(folder)
    monkeypatch.setenv("TOOLYARD_SERVER", "http://tools.example")
    for verb in (["approvals"], ["approve", "1"], ["reject", "1"]):
        ended = here(*verb)
        assert (ended.code, ended.out) == (2, "")
        assert "(not with TOOLYARD_SERVER, which is http://tools.example)" in ended.err
    assert here("approvals", "--store", "sqlite:toolyard.db").code == 0
    told = here("audit", "tail").err
    assert told == "From the ledger here, sqlite:toolyard.db, and not from TOOLYARD_SERVER (http://tools.example)\n"
    (folder / "toolyard.db.admin").write_text('{"address": "http://tools.example", "token": "gone", "socket": "gone"}')
    monkeypatch.setenv("TOOLYARD_SERVER", "http://tools.example/")
    assert here("approvals").code == 0, "it is this ledger's own server"
