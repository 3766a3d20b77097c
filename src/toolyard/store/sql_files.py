"""The SQL of the stores, which stands in files: numbered migrations, applied in order, and named statements.

A fresh schema is what the migrations make of nothing, so that every ledger has gone the same way. Each statement stands
under a line `-- name: …`.
"""

from functools import cache
from pathlib import Path
from types import SimpleNamespace

from msgspec import Struct

from ..model.errors import SourcePlace
from .values import SchemaTooNew


class Migration(Struct, frozen=True):
    """One step of a store's schema. Once released it never changes: ledgers have it behind them."""

    number: int
    sql: str


def migrations(store: str) -> list[Migration]:
    """Those of a store, by number."""
    found = [entry for entry in (SQL / store).iterdir() if entry.name[:3].isdigit()]
    made = [Migration(int(entry.name.partition("_")[0]), entry.read_text(encoding="utf-8")) for entry in found]
    return sorted(made, key=lambda migration: migration.number)


def missing(store: str, applied: int, where: str) -> list[Migration]:
    """What is still to be applied. Raises SchemaTooNew where the store has more than this toolyard knows."""
    known = migrations(store)
    if applied > known[-1].number:
        raise SchemaTooNew(
            f"the ledger has schema {applied}, and this toolyard knows {known[-1].number}; upgrade toolyard",
            SourcePlace(where),
        )
    return [migration for migration in known if migration.number > applied]


SQL = Path(__file__).with_name("sql")


@cache
def statements(store: str) -> SimpleNamespace:
    """Those of a store, by name."""
    text = (SQL / store / "statements.sql").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("-- name: ")[1:]]
    return SimpleNamespace(**{name.strip(): _without_comments(sql) for name, _, sql in parts})


def _without_comments(sql: str) -> str:
    return "\n".join(line for line in sql.splitlines() if not line.startswith("--")).strip()
