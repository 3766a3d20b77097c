"""`toolyard new`."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..authoring.toolkit import camel_case
from ..model.errors import SetupError

TEMPLATES = Path(__file__).parent / "project"


def new(
    name: Annotated[str, typer.Argument(help="The project's folder, for example mytools.")],
) -> None:
    """Make a project: a tool, a test that calls it, a README."""
    folder = Path(name)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", folder.name):
        raise SetupError(f"{folder.name!r} cannot name a project; use letters, digits, '_' and '-', a letter first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SetupError(f"{folder} is there already; choose another name")
    toolkit = camel_case(folder.name.replace("-", "_"))
    folder.mkdir(parents=True, exist_ok=True)
    for template in sorted(TEMPLATES.iterdir()):
        text = template.read_text(encoding="utf-8").replace("TOOLKIT", toolkit).replace("PROJECT", folder.name)
        (folder / template.name.removesuffix(".txt")).write_text(text, encoding="utf-8")
    sys.stdout.write(
        f"Made {folder}. Next:\n\n  cd {folder}\n  toolyard serve\n  toolyard call {toolkit}.Greet name=Ada\n"
    )
