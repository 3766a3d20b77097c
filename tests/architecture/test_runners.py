"""Nobody asks what a tool's runner is called: whoever has to know how its calls are handled asks the runner. An author
chooses among three of them by name, so `authoring` knows those names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolyard

SOURCE = Path(toolyard.__file__).parent


def asked_in(path: Path) -> Iterator[int]:
    """The lines of a file that compare the name of a tool's runner, or look something up by it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.expr):
            continue
        compares = isinstance(node, ast.Compare) and any(map(_is_name, (node.left, *node.comparators)))
        if compares or (isinstance(node, ast.Subscript) and _is_name(node.slice) and not _is_table(node.value)):
            yield node.lineno


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "runs"


def _is_table(node: ast.expr) -> bool:
    """Whether it is a table of runners."""
    return ast.unparse(node).removeprefix("self.").lstrip("_") == "runners"


def test_nobody_asks_for_a_runner_by_name() -> None:
    files = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "authoring"]
    assert [f"{path.relative_to(SOURCE)}:{line}" for path in files for line in asked_in(path)] == []


@pytest.mark.parametrize("line", ["tool.runs == 'worker'", "'inline' != x.tool.runs", "PLACES[tool.runs]"])
def test_the_look_sees_them(tmp_path: Path, line: str) -> None:
    (tmp_path / "new.py").write_text(f"def f(tool):\n    return {line}\n")
    assert list(asked_in(tmp_path / "new.py")) == [2]
