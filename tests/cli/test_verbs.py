"""The command line as a whole: its help, its version, and the list of settings."""

from pathlib import Path
from typing import Any

import pytest

from toolyard.server.settings.table import PREFIX, rows

from .processes import Ended, toolyard

KEY = "ty_never_to_be_shown_0123456789"


def test_every_setting_is_listed_and_no_value_of_it(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text(f"api_keys = ['{KEY}']", encoding="utf-8")
    ended = toolyard("settings", folder=tmp_path, variables={"TOOLYARD_API_KEYS": KEY})
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line.partition(" = ")[0] for line in lines[::2]] == [row.name for row in rows()]
    assert all(f"({PREFIX}{row.name.upper()})" in line for row, line in zip(rows(), lines[1::2], strict=True))
    assert "port = 8000" in lines
    assert KEY not in ended.out


def test_the_version_is_told(here: Any) -> None:
    assert here("--version") == Ended(0, "toolyard 0.1.0\n", "")


def test_help_names_every_verb(here: Any) -> None:
    shown = here("--help")
    assert shown.code == 0
    for verb in ("demo", "serve", "worker", "call", "list", "console", "lock", "new", "settings", "--debug"):
        assert verb in shown.out


@pytest.mark.parametrize("group", [[], ["calls"], ["keys"], ["connections"], ["secrets"], ["audit"]])
def test_help_tells_every_verb_in_a_whole_sentence(here: Any, group: list[str]) -> None:
    """What does not fit beside a verb's name is cut off."""
    _, _, listed = here(*group, "--help").out.partition("Commands:\n")
    sentences = [line for line in listed.partition("\n\n")[0].splitlines() if line.strip()]
    assert sentences
    assert [line for line in sentences if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("verb", ["demo", "serve", "worker", "call", "list", "console", "lock", "new", "settings"])
def test_each_verb_has_help(here: Any, verb: str) -> None:
    shown = here(verb, "--help")
    assert shown.code == 0
    assert f"toolyard {verb}" in shown.out
