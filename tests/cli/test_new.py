"""`toolyard new`: a project whose tool is served, called and tested as it is."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conformance.serving import environment
from .processes import Ended, serving, toolyard


def test_a_new_project_is_tested_called_and_served_as_it_is(tmp_path: Path) -> None:
    made = toolyard("new", "mytools", folder=tmp_path)
    project = tmp_path / "mytools"
    assert made.out.splitlines() == [
        "Made mytools. Next:",
        "",
        "  cd mytools",
        "  toolyard serve",
        "  toolyard call Mytools.Greet name=Ada",
    ]
    assert (made.code, made.err) == (0, "")
    assert sorted(path.name for path in project.iterdir()) == [
        ".gitignore", "README.md", "test_tools.py", "tools.py", "toolyard.toml",
    ]  # fmt: skip
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=environment("open"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    with serving(folder=project) as served:
        assert served.call("Mytools.Greet", {"name": "Ada"}) == "Hello, Ada!"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "toolkit"),
    [
        ("my-tools", "MyTools"),
        ("My_PROJECT", "MyPROJECT"),
        ("TOOLKIT", "TOOLKIT"),
        ("deep/down/x", "X"),
        ("a" * 50, "A" + "a" * 49),
    ],
)
def test_a_projects_name_names_its_toolkit(here: Any, folder: Path, name: str, toolkit: str) -> None:
    assert here("new", name).code == 0
    called = here("call", f"{toolkit}.Greet", "name=Ada", "--file", f"{name}/tools.py")
    assert called == Ended(0, "Hello, Ada!\n", "")
    assert f"Tools of {Path(name).name}." in (folder / name / "tools.py").read_text(encoding="utf-8")


def test_a_project_may_be_made_in_an_empty_folder(here: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    assert here("new", ".").code == 0
    assert 'Toolkit("Here"' in Path("tools.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["9lives", "my tools", "été", "_x", "a.b", "a" * 51, "-x", "9/"])
def test_a_name_that_cannot_be_is_refused(here: Any, folder: Path, name: str) -> None:
    ended = here("new", "--", name)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot name a project; use up to 50 letters, digits, '_' and '-', a letter first" in ended.err
    assert list(folder.iterdir()) == []


def test_what_is_there_already_is_left_alone(here: Any, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "tools.py").write_text("mine", encoding="utf-8")
    (folder / "file").write_text("mine", encoding="utf-8")
    for name in ("mine", "file"):
        assert here("new", name) == Ended(2, "", f"toolyard: {name} is there already; choose another name\n")
    assert (folder / "mine" / "tools.py").read_text(encoding="utf-8") == "mine"
    below = here("new", "file/below")
    assert (below.code, len(below.err.splitlines())) == (2, 1)
    assert below.err.startswith("toolyard: cannot make file/below: ")
