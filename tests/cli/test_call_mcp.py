"""`toolyard call` and `toolyard list` at an address that ends in `/mcp`."""

import json
from pathlib import Path
from typing import Any

import pytest

from .processes import Served


@pytest.fixture
def ask(here: Any, server: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    return lambda *arguments: here(*arguments, "--server", f"{server.address}/mcp")


def test_a_call_prints_what_it_returns(ask: Any) -> None:
    assert ask("call", "Kit.Add", "a=1", "b=2").out == "3\n"
    assert ask("call", "Kit_Add", "a=1", "b=2").out == "3\n"
    assert json.loads(ask("call", "Kit.Point", "--json").out)["value"] == {"x": 1}
    assert ask("call", "Kit.Nothing").out == ""


def test_words_are_typed_by_the_listed_schema(ask: Any) -> None:
    assert ask("call", "Kit.Show", "number=10").out == "'10'\n"
    assert ask("call", "Kit.Show@2", "number=10").out == "'10'\n"


def test_a_failure_is_told(ask: Any) -> None:
    ended = ask("call", "Kit.Fail")
    assert (ended.code, ended.out, ended.err) == (1, "", "It is closed\ntry Monday\n")
    ended = ask("call", "Kit.Missing")
    assert (ended.code, ended.err) == (1, "Tool 'Kit.Missing' was not found\n  (-v says more)\n")
    ended = ask("call", "Kit.Needs", "--secret", "KEY=k")
    assert (ended.code, ended.out) == (1, "")
    assert "MCP has no place for secrets" in ended.err


def test_a_list_shows_references(ask: Any) -> None:
    lines = [line.split(maxsplit=1) for line in ask("list").out.splitlines()]
    assert ["Kit.Add@1.0.0", "Adds two numbers together."] in lines
    assert ["Kit.Show@2.0.0", "Shows a text, whatever it is called."] in lines
    assert json.loads(ask("list", "--json").out)[0]["name"] == "Kit_Add"


def test_what_mcp_cannot_tell_is_said(ask: Any) -> None:
    ended = ask("calls")
    assert (ended.code, ended.out) == (1, "")
    assert "without /mcp" in ended.err


@pytest.mark.parametrize("wire", ["", "/mcp"])
def test_a_wrong_argument_is_sent_once(server: Served, here: Any, folder: Path, wire: str) -> None:
    (folder / "knocks").unlink(missing_ok=True)
    ended = here("call", "Kit.Knock", "door=side", "--server", server.address + wire)
    assert (ended.code, [line.strip() for line in ended.err.splitlines()]) == (1, ["No such door", "doors: front"])
    assert (folder / "knocks").read_text() == "side\n"


@pytest.mark.parametrize("wire", ["", "/mcp"])
def test_the_link_of_a_missing_account_is_shown(server: Served, here: Any, folder: Path, wire: str) -> None:
    ended = here("call", "Kit.Mine", "--no-wait", "--server", server.address + wire)
    lines = ended.err.splitlines()
    assert (ended.code, len(lines), "google" in lines[0]) == (1, 2, True)
    assert lines[1].startswith(f"  open {server.address}/authorize/")
