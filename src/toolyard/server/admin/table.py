"""The operator's table: every operation that whoever runs the server can ask for, as `/v1/admin` has it.

A new operation is a row beside its handler, in the module of its subject; a new subject is a line here. A server and
`operator/ledger_transport.py` both serve this table, so a verb works with and without a server.
"""

from ..http.routes import Route
from . import (
    accounts,
    api_keys,
    approvals,
    audit,
    calls,
    console_code,
    erasure,
    explain,
    secrets,
    upstreams,
    worker_tools,
)
from .operation import Operation, OperatorParts

OPERATIONS: tuple[Operation, ...] = (
    *calls.OPERATIONS,
    *erasure.OPERATIONS,
    *api_keys.OPERATIONS,
    *secrets.OPERATIONS,
    *audit.OPERATIONS,
    *explain.OPERATIONS,
    *accounts.OPERATIONS,
    *approvals.OPERATIONS,
    *worker_tools.OPERATIONS,
    *upstreams.OPERATIONS,
    *console_code.OPERATIONS,
)


def routes(parts: OperatorParts) -> list[Route]:
    """The rows that can be served with these parts: all of them where a server runs."""
    return [each.route(parts) for each in OPERATIONS if parts.server is not None or not each.needs_server]
