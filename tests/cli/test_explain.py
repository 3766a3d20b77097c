"""`toolyard explain`: which rule decides, with a server and without one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .processes import Ended, serving

Run = Callable[..., Ended]
SETTINGS = """
[[access]]
name = "calculators"
who = { subject = "user-*" }
tools = ["Calculator.*"]
scopes = ["calc"]

[[access]]
who = { key = "laptop" }
"""


@pytest.fixture(autouse=True)
def _folder(here: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolyard.toml").write_text(SETTINGS)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--as user-1 --scope calc", 0, "user-1 may call Calculator.Add@1.0.0\n  because: calculators\n"),
        (
            "--as user-1",
            1,
            "user-1 sees, and may not call, Calculator.Add@1.0.0\n  because: calculators\n  lacks the scopes: calc\n",
        ),
        ("--as bob", 1, "bob does not see Calculator.Add@1.0.0\n  because: no rule allows it\n"),
    ],
)
def test_it_says_which_rule_decides(words: str, code: int, said: str, here: Run) -> None:
    ended = here("explain", "Calculator.Add", *words.split())
    assert (ended.code, ended.out, ended.err) == (code, said, "")


def test_it_names_the_rule_that_asks_for_approval_or_spares_it(here: Run, tmp_path: Path) -> None:
    night = '[[approvals]]\nwho = { subject = "night-job" }\nask = false\n'
    (tmp_path / "toolyard.toml").write_text(night + '[[approvals]]\nname = "sums"\ntools = "Calculator.Add"\n')
    asks, spares = (here("explain", "Calculator.Add", "--as", who).out.splitlines()[-1] for who in ("ada", "night-job"))
    assert asks == "  the tool needs: approval, by the rule sums"
    assert spares == "  needs no approval: by the rule approvals[1]"


def test_a_key_of_the_ledger_is_known_by_its_name(here: Run) -> None:
    assert here("keys", "new", "laptop", "--allow", "Calculator.*").code == 0
    assert here("explain", "Calculator.Add", "--key", "laptop").out.startswith("laptop may call")
    found = here("explain", "Calculator.Add", "--key", "laptop", "--json")
    assert json.loads(found.out)["rule"] == "access[2]"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("Calculator.Add", 2, "say who would call it, with --as SUBJECT or --key NAME"),
        ("Calculator.Add --key nobody", 2, "there is no ledger here that could have the key"),
        ("Nope.Add --as bob", 2, "no tools are set, so Nope.Add is not known; say where it is with --tools"),
        ("Nope.Add --as bob --tools toolyard.reference", 1, "Nope.Add is not a tool of this server"),
        ("Calculator.Add --as bob --claim x", 2, "is not NAME=VALUE"),
    ],
)
def test_what_cannot_be_explained(words: str, code: int, said: str, here: Run) -> None:
    ended = here("explain", *words.split())
    assert (ended.code, said in ended.err) == (code, True)


def test_a_server_that_runs_is_asked(here: Run, tmp_path: Path) -> None:
    """It knows tools that are not in any file: its workers'. And the settings that it was started with."""
    with serving("toolyard.reference", folder=tmp_path):
        (tmp_path / "toolyard.toml").write_text("")
        assert here("explain", "Calculator.Add", "--as", "bob").code == 1
