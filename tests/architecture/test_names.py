"""A name that asks says yes or no: what begins with `is_`, `has_`, `can_`, `may_` or `are_` returns a bool, and changes
nothing. What happened is `on_…`, what is to be done is a verb."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolyard

SOURCE = Path(toolyard.__file__).parent
ASKS = re.compile(r"_*(is|has|can|may|are)(_\w+)?").fullmatch


def not_asking(path: Path) -> Iterator[str]:
    """The functions of a file that are named like a question and return something else than a bool."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ASKS(node.name) and not _is_bool(node.returns):
            yield node.name


def _is_bool(annotation: ast.expr | None) -> bool:
    """Also where the answer tells the type checker something."""
    return annotation is not None and (
        ast.unparse(annotation) == "bool" or ast.unparse(annotation).startswith("TypeGuard[")
    )


def test_what_is_named_like_a_question_returns_a_bool() -> None:
    found = {f"{path.relative_to(SOURCE)} {name}" for path in SOURCE.rglob("*.py") for name in not_asking(path)}
    assert found == set()


@pytest.mark.parametrize(
    ("function", "is_found"),
    [
        ("def is_known(self) -> None: ...", True),
        ("async def _has_room(self): ...", True),
        ("def _is(self, up: bool) -> None: ...", True),
        ("def may_be(self) -> bool: ...", False),
        ("def issue(self) -> str: ...", False),
    ],
)
def test_the_look_sees_them(tmp_path: Path, function: str, is_found: bool) -> None:
    (tmp_path / "new.py").write_text(function)
    assert bool(list(not_asking(tmp_path / "new.py"))) == is_found
