"""SQL in files, each statement under a line `-- name: …`."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

SQL = Path(__file__).with_name("sql")


@cache
def statements(store: str) -> SimpleNamespace:
    """Those of a store, by name."""
    text = (SQL / store / "statements.sql").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("-- name: ")[1:]]
    return SimpleNamespace(**{name.strip(): _without_comments(sql) for name, _, sql in parts})


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.startswith("--")).strip()
