"""`toolyard new`: an author starts a project that can be installed, with a tool, a test and a README."""

import keyword
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...authoring.options import camel_case
from ...model.errors import SetupError
from ..support.screen import say

TEMPLATES = Path(__file__).parents[1] / "project"


def new(
    name: Annotated[str, typer.Argument(help="The project's folder, for example mytools.")],
) -> None:
    """Make a project that can be installed.

    It has a tool, a test that calls it, and a README.

    toolyard new mytools && cd mytools && pip install -e . && toolyard serve mytools
    """
    if not name:
        raise SetupError("the project has no name; say one, for example toolyard new mytools")
    folder = Path(name)
    project = folder.resolve().name
    package = _package(project)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SetupError(f"{folder} is there already; choose another name")
    toolkit = camel_case(project.replace("-", "_"))
    try:
        _fill(folder, {"TOOLKIT": toolkit, "PROJECT": project, "PACKAGE": package})
    except OSError as error:
        raise SetupError(f"cannot make {folder}: {error.filename}: {error.strerror}") from None
    steps = [f"cd {folder}", "pip install -e .", f"toolyard serve {project}", f"toolyard call {toolkit}.Greet name=Ada"]
    say(f"Made {folder}. Next:\n\n" + "".join(f"  {step}\n" for step in steps))


def _package(project: str) -> str:
    """The name under which the project's code is imported. Raises SetupError for a name that cannot be one."""
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]{,48}[A-Za-z0-9])?", project):
        raise SetupError(
            f"{project!r} cannot name a project; use up to 50 letters, digits, '_' and '-', a letter first"
        )
    package = project.lower().replace("-", "_")
    if package in _TAKEN or keyword.iskeyword(package):
        raise SetupError(f"{project!r} cannot name a project: Python has another {package!r}; choose another name")
    return package


_TAKEN = sys.stdlib_module_names | {"toolyard", "pytest", "tests"}
"""Modules that a project of this name would hide, or that would hide it."""


def _fill(folder: Path, names: dict[str, str]) -> None:
    for template in sorted(path for path in TEMPLATES.rglob("*") if path.is_file()):
        place = folder / _with_names(str(template.relative_to(TEMPLATES)).removesuffix(".txt"), names)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_with_names(template.read_text(encoding="utf-8"), names), encoding="utf-8")


def _with_names(text: str, names: dict[str, str]) -> str:
    return re.sub("|".join(names), lambda found: names[found[0]], text)
