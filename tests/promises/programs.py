"""The program of the next release, as far as a ledger can tell: it knows one more migration, which changes every table
in the ways that are allowed. Whoever runs before goes on beside it, and does not start again."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

import apsw

from toolyard.store import sql_files
from toolyard.store.sql_files import Migration, migrations

IN_POSTGRES = """
DO $$ DECLARE found name; BEGIN
    FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
        EXECUTE format('ALTER TABLE %I ADD shelf text, ADD row_of_shelf integer NOT NULL DEFAULT 7', found);
    END LOOP;
END $$;
"""
MORE = "CREATE TABLE shelves (name text PRIMARY KEY); CREATE INDEX calls_by_shelf ON calls (shelf);"
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'stored'"
"""In SQLite a trigger that fills a table by the order of its columns has to change with them."""


@contextmanager
def next_release() -> Iterator[None]:
    """Whoever opens a ledger meanwhile is the next program."""
    newer = {store: [*migrations(store), _next(store)] for store in ("sqlite", "postgres")}
    with mock.patch.object(sql_files, "migrations", newer.__getitem__):
        yield


@cache
def _next(store: str) -> Migration:
    return Migration(migrations(store)[-1].number + 1, IN_POSTGRES + MORE if store == "postgres" else _in_sqlite())


def _in_sqlite() -> str:
    ledger = apsw.Connection(":memory:")
    for migration in migrations("sqlite"):
        ledger.execute(migration.sql)
    columns = ("shelf TEXT", "row_of_shelf INTEGER NOT NULL DEFAULT 7")
    added = [f"ALTER TABLE {name} ADD {each};" for (name,) in ledger.execute(TABLES) for each in columns]
    return "\n".join([*added, MORE])
