"""Which Pythons the suite runs on, and which the metadata names."""

import sys
import tomllib
from pathlib import Path

import pytest

from .versions import OLDEST, ROOT, candidates, interpreters, main

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_python_that_runs_this_is_found_and_none_that_is_too_old() -> None:
    found = interpreters(candidates())
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found
    assert all(int(name.partition(".")[2]) >= OLDEST for name in found)


def test_what_does_not_start_and_what_is_too_old_is_passed_over(tmp_path: Path) -> None:
    said = {"old": "3 9 1", "first": "3 12 1", "newer": "3 12 4", "next": "3 14 0"}
    for name, version in said.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
    (tmp_path / "shim").write_text("#!/bin/sh\nexit 127\n")
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    assert interpreters(tmp_path.iterdir()) == {"3.12": tmp_path / "newer", "3.14": tmp_path / "next"}


def test_each_has_an_environment_of_its_own_and_one_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").write_text("tried:\n\t@echo $(VENV) $(PYTHON)\n\t@test $(VENV) != .venv-3.12\n")
    monkeypatch.setattr("tests.versions.ROOT", tmp_path)
    monkeypatch.setattr("tests.versions.interpreters", lambda _: {"3.11": Path("/one"), "3.12": Path("/two")})
    assert main(["tried"]) == 1
    printed = capfd.readouterr().out.splitlines()
    assert ".venv-3.11 /one" in printed
    assert printed[-2:] == ["Python 3.11: passed", "Python 3.12: FAILED"]


def test_the_metadata_names_versions_from_the_oldest_on() -> None:
    named = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert PROJECT["requires-python"] == f">={named[0]}" == f">=3.{OLDEST}"
    assert named == [f"3.{OLDEST + number}" for number in range(len(named))]
