"""Objects are complete when they are constructed: the composition roots hand everything to constructors, and set
nothing on a part afterwards. Whoever reads a class then sees in its constructor all that it will ever be given."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolyard

SERVER = Path(toolyard.__file__).parent / "server"
ROOTS = [SERVER / "app" / "compose.py", SERVER / "mcp" / "assembly.py"]


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns to, each of a tuple's parts for itself."""
    given: list[ast.expr]
    if isinstance(node, ast.Assign):
        given = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        given = [node.target]
    else:
        return
    for target in given:
        yield from (part for part in ast.walk(target) if isinstance(part, ast.expr))


def set_from_outside(source: str) -> list[str]:
    """Attributes of anything but `self` that are assigned to."""
    return [
        ast.unparse(target)
        for node in ast.walk(ast.parse(source))
        for target in targets(node)
        if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
        if not (isinstance(target.value, ast.Name) and target.value.id == "self")
    ]


@pytest.mark.parametrize("path", ROOTS, ids=lambda path: path.name)
def test_a_composition_root_sets_nothing_on_a_part_that_is_made(path: Path) -> None:
    assert set_from_outside(path.read_text(encoding="utf-8")) == []


def test_what_is_set_from_outside_is_seen() -> None:
    source = "self.a = self.b.c\nself.b.c = 1\nx.y, z = 1, 2\nx.n += 1\nx.t: int = 3\nself.d[x.e] = 4\n"
    assert set_from_outside(source) == ["self.b.c", "x.y", "x.n", "x.t"]
