"""`toolyard new`: a project whose tool is served, called and tested as it is."""

import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

import toolyard as toolyard_package

from ..conformance.serving import environment
from .processes import READY, Ended, started, toolyard


class Venv:
    """A virtual environment that has what this one has, and can be given more: as cheap as a folder."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        (site,) = folder.glob("lib/python*/site-packages")
        # A .pth file within a folder that is itself named by one is not read, so the editable toolyard is named, too.
        ours = [sysconfig.get_path("purelib"), str(Path(toolyard_package.__file__).parents[1])]
        (site / "ours.pth").write_text("\n".join(ours))

    def run(self, *arguments: str, cwd: Path) -> Ended:
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=cwd,
            env=environment("open"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)


def test_a_new_project_is_installed_served_and_tested_as_it_is(tmp_path: Path) -> None:
    made = toolyard("new", "my-tools", folder=tmp_path)
    project = tmp_path / "my-tools"
    assert made.out.splitlines() == [
        "Made my-tools. Next:",
        "",
        "  cd my-tools",
        "  pip install -e .",
        "  toolyard serve my-tools",
        "  toolyard call MyTools.Greet name=Ada",
    ]
    assert (made.code, made.err) == (0, "")
    assert sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()) == [
        ".gitignore", "README.md", "pyproject.toml", "src/my_tools/__init__.py", "src/my_tools/tools.py",
        "tests/test_tools.py", "toolyard.toml",
    ]  # fmt: skip
    there = Venv(tmp_path / "venv")
    installed = there.run(
        "-m", "pip", "install", "-q", "-e", ".", "--no-build-isolation", "--no-index", cwd=project,
    )  # fmt: skip
    assert installed.code == 0, installed.err
    tested = there.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert tested.code == 0, tested.out
    assert "2 passed" in tested.out
    for folder, target in ((tmp_path, ["my-tools"]), (project, [])):  # by its name from anywhere; by its settings
        listed = [str(there.python), "-m", "toolyard", "serve", *target, "--port", "0"]
        with started(listed, folder) as served:
            served.hear(READY)
            assert served.said[0].endswith("serves 1 tool from my-tools")
            assert served.call("MyTools.Greet", {"name": "Ada"}) == "Hello, Ada!"


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
    called = here(
        "call",
        f"{toolkit}.Greet",
        "name=Ada",
        "--file",
        f"{name}/src/{Path(name).name.lower().replace('-', '_')}/tools.py",
    )
    assert called == Ended(0, "Hello, Ada!\n", "")
    assert f"Tools of {Path(name).name}." in (folder / name / "pyproject.toml").read_text(encoding="utf-8")


def test_a_project_may_be_made_in_an_empty_folder(here: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    assert here("new", ".").code == 0
    assert 'Toolkit("Here"' in Path("src/here/tools.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["9lives", "my tools", "été", "_x", "a.b", "a" * 51, "-x", "9/"])
def test_a_name_that_cannot_be_is_refused(here: Any, folder: Path, name: str) -> None:
    ended = here("new", "--", name)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot name a project; use up to 50 letters, digits, '_' and '-', a letter first" in ended.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "Toolyard", "class", "tests"])
def test_a_name_that_python_uses_otherwise_is_refused(here: Any, folder: Path, name: str) -> None:
    ended = here("new", name)
    assert (ended.code, ended.out) == (2, "")
    assert f"{name!r} cannot name a project: Python has another {name.lower()!r}; choose another name" in ended.err
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
