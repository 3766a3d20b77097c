"""A name stands for one class: a reader who finds it once has found it."""

import ast
from collections import defaultdict
from pathlib import Path

import toolyard

SOURCE = Path(toolyard.__file__).parent
NAMED_BY_OTHERS = ("server/openapi/", "reference/")
"""Classes whose names others chose: the schemas of the published OpenAPI document, and an author's own in examples."""


def classes() -> dict[str, list[str]]:
    """The files of each public class."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(SOURCE)))
    return found


def test_a_public_class_name_stands_once() -> None:
    ours = {name: [path for path in paths if not path.startswith(NAMED_BY_OTHERS)] for name, paths in classes().items()}
    assert {name: paths for name, paths in ours.items() if len(paths) > 1} == {}


def test_the_reader_of_classes_sees_them() -> None:
    assert classes()["Engine"] == ["engine/engine.py"]
