"""Numbered SQL files, applied in order. A fresh schema is what they make of nothing."""

from msgspec import Struct

from ..model.errors import Place
from .contract import SchemaTooNew
from .statements import SQL


class Migration(Struct, frozen=True):
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
            Place(where),
        )
    return [migration for migration in known if migration.number > applied]
