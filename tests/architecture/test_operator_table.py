"""The operator's table: a server serves all of it, and a ledger that is opened without a server all but what it cannot
know. There is no second list of an operator's routes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolyard.operator.ledger_transport import LedgerTransport
from toolyard.server.admin.operation import Operation
from toolyard.server.admin.table import OPERATIONS
from toolyard.server.app.compose import Yard
from toolyard.server.http.routes import Route
from toolyard.server.settings.table import exactly
from toolyard.wires.contract import Request

NEEDS_SERVER = {("POST", "/v1/admin/explain")}
"""A ledger knows no tools, so `operator/explain.py` asks the settings instead."""
ROWS = pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: f"{row.method} {row.path}")


@pytest.fixture(scope="module")
def served() -> list[Route]:
    """All routes of a server."""
    return Yard([], exactly()).asgi._table.all()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerTransport]:
    """A ledger that no server has."""
    folder: Path = tmp_path_factory.mktemp("ledger")
    transport = LedgerTransport(exactly(store=f"sqlite:{folder / 'toolyard.db'}", secret_key="7" * 64))
    yield transport
    transport.close()


def test_every_route_of_an_operator_is_a_row(served: list[Route]) -> None:
    routes = {(route.method, route.path) for route in served if route.who == "operator"}
    assert routes == {(row.method, row.path) for row in OPERATIONS}


def test_nothing_else_is_below_the_operators_path(served: list[Route]) -> None:
    assert {route.who for route in served if route.path.startswith("/v1/admin")} == {"operator"}


@ROWS
def test_a_server_serves_the_row_as_it_stands(row: Operation, served: list[Route]) -> None:
    (route,) = (route for route in served if (route.method, route.path) == (row.method, row.path))
    assert (route.who, route.audit_as, route.reads_json) == ("operator", row.audit_as, row.reads_json)


@ROWS
def test_a_row_is_served_without_a_server(row: Operation, ledger: LedgerTransport) -> None:
    """What the row makes of an empty request is its own affair, but it is the one that answers."""
    reply = ledger.send(Request(row.method, re.sub(r"\{\w+\}", "x", row.path)))
    is_served = b"Nothing is served at" not in reply.body and reply.status != 405
    assert is_served is ((row.method, row.path) not in NEEDS_SERVER)


@ROWS
def test_a_row_that_changes_something_is_in_the_audit_log(row: Operation) -> None:
    """Approvals write entries of their own, also for what was refused; a check of the audit log and an explanation are
    questions with a body."""
    asks = row.method == "GET" or row.path.endswith(("/verify", "/explain"))
    assert bool(row.audit_as) is not (asks or row.path.startswith("/v1/admin/approvals"))
