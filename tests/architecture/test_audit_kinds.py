"""The kinds of audit entries: each has a name in one enum, and a word in the guide for who reads the log."""

import ast
import re
from pathlib import Path

import toolyard
from toolyard.trust.audit.entry import AuditKind

SOURCE = Path(toolyard.__file__).parent
GUIDE = SOURCE.parents[1] / "docs" / "guides" / "audit.md"


def kinds_in_the_guide() -> set[str]:
    (row,) = [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if line.startswith("| `kind` |")]
    return set(re.findall(r"`(\w+)`", row.removeprefix("| `kind` |")))


def test_every_kind_of_entry_stands_in_the_guide() -> None:
    assert kinds_in_the_guide() == {str(kind) for kind in AuditKind}


def test_every_kind_of_entry_is_written_by_somebody() -> None:
    named = {
        node.attr
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "AuditKind"
    }
    assert named == set(AuditKind.__members__)
