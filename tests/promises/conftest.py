"""The ledgers that the machine works on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import Server

from .ledgers import Ledger, PostgresLedger, SqliteLedger

NewLedger = Callable[[], Ledger]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_ledger(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewLedger]:
    if kind == "sqlite":
        yield lambda: SqliteLedger(tmp_path)
        return
    server: Server = request.getfixturevalue("postgres_server")
    yield lambda: PostgresLedger(server)
