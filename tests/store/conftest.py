"""Every store, opened on a clock that the test owns. The suite knows none of them by name.

A test that is `async def` runs on an event loop of its own, the one its stores were opened on. One that needs two nodes
at the same time is marked `needs_nodes`, and runs where a ledger can have them; one of a single store, `kind`.
"""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresLedger, Server
from tests.store.ledgers import Ledger, ManualClock, Opening, SqliteLedger
from toolyard.store.contract import Store

KINDS = {"sqlite": False, "postgres": True}
"""Stores, and whether many nodes can share one. `<kind>_ledger` is the fixture that makes a new ledger."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_nodes: two nodes on one ledger at the same time")
    config.addinivalue_line("markers", "kind(name): only on that store")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" not in metafunc.fixturenames:
        return
    needs_nodes = metafunc.definition.get_closest_marker("needs_nodes") is not None
    only = metafunc.definition.get_closest_marker("kind")
    kinds = only.args if only else [kind for kind, has_nodes in KINDS.items() if has_nodes or not needs_nodes]
    metafunc.parametrize("kind", kinds)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**given))
    return True


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def ledger(kind: str, request: pytest.FixtureRequest) -> Ledger:
    made: Ledger = request.getfixturevalue(f"{kind}_ledger")
    return made


@pytest.fixture
def sqlite_ledger(tmp_path: Path, clock: ManualClock) -> Ledger:
    return SqliteLedger(tmp_path, clock)


@pytest.fixture
def postgres_ledger(clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """Tests that know no address reach the database through its store alone, and leave nothing there but rows."""
    server: Server = request.getfixturevalue("postgres_server")
    is_borrowed = "postgres_url" not in request.fixturenames
    name = server.borrow() if is_borrowed else ""
    url = server.url_of(name) if is_borrowed else request.getfixturevalue("postgres_url")
    ledger = PostgresLedger(url, clock.now, server.kept if is_borrowed else None)
    clock.followers.append(ledger.follow)
    yield ledger
    if is_borrowed:
        server.give_back(name)


@pytest.fixture
def make_store(ledger: Ledger, runner: asyncio.Runner) -> Iterator[Opening]:
    """Opens the ledger as a node of the given name."""
    opening = Opening(ledger)
    yield opening
    runner.run(opening.close_all())


@pytest.fixture
def store(make_store: Opening, runner: asyncio.Runner) -> Store:
    """Opened as node `a`."""
    return runner.run(make_store())
