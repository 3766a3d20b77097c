"""`toolyard new`: an author starts a project, with a tool, a test and a README."""

import re
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
    """Make a project: a tool, a test that calls it, a README."""
    if not name:
        raise SetupError("the project has no name; say one, for example toolyard new mytools")
    folder = Path(name)
    project = folder.resolve().name
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{,49}", project):
        raise SetupError(
            f"{project!r} cannot name a project; use up to 50 letters, digits, '_' and '-', a letter first"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SetupError(f"{folder} is there already; choose another name")
    toolkit = camel_case(project.replace("-", "_"))
    try:
        _fill(folder, {"TOOLKIT": toolkit, "PROJECT": project})
    except OSError as error:
        raise SetupError(f"cannot make {folder}: {error.filename}: {error.strerror}") from None
    say(f"Made {folder}. Next:\n\n  cd {folder}\n  toolyard serve\n  toolyard call {toolkit}.Greet name=Ada\n")


def _fill(folder: Path, names: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for template in sorted(TEMPLATES.iterdir()):
        text = re.sub("|".join(names), lambda found: names[found[0]], template.read_text(encoding="utf-8"))
        (folder / template.name.removesuffix(".txt")).write_text(text, encoding="utf-8")
