"""What an operation of an operator is: a row that `table.py` lists, and the parts that every row's handler is given.

An operator is whoever runs the server. The same rows are served in two places: by a running server, at `/v1/admin`, and
by `operator/ledger_transport.py`, over a ledger that no server holds. Handlers therefore take everything they need from
`OperatorParts`, which both places fill in.

The operations are no part of the API that callers have, so the OpenAPI document does not list them. A caller's
credentials do not open them, nor does a request from the same machine: the operator's token does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from ...catalogue import Catalogue
from ...store.contract import Store
from ...trust.access.access import Access
from ...trust.approvals.rules import ApprovalRule
from ...trust.audit.entry import AuditKind
from ...trust.limits.limits import Limit
from ...trust.sealing.ring import KeyRing
from ...wires.admin.console_code import ConsoleCode
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..approvals.decisions import AuditedApprovals
from ..http.exchange import Exchange
from ..http.routes import Route

if TYPE_CHECKING:
    from ...trust.requirements.accounts import Accounts
    from ...upstream.upstreams import FollowedUpstream, Upstreams


class RunningServer(Struct, frozen=True):
    """What only a server knows or has to hear of: its tools, its rules, and its copy of the API keys."""

    catalogue: Catalogue
    access: Access
    limits: Callable[[], Sequence[Limit]]
    approval_rules: Sequence[ApprovalRule]
    sync_keys: Callable[[], Awaitable[None]]
    """Has the server read the API keys again, so that a change counts before it is acknowledged."""
    upstreams: "Upstreams | None"
    """None where it has none."""


class OperatorParts(Struct, frozen=True):
    """What the handlers of all operations are made from."""

    store: Store
    ring: KeyRing
    now: Callable[[], float]
    decisions: AuditedApprovals
    accounts: "Callable[[], Accounts]"
    """Loads users' accounts at providers when an operator asks for them: few do, and the OAuth client is heavy."""
    console_code: Callable[[Exchange], Awaitable[ConsoleCode]]
    """Makes a code that lets one browser into the console."""
    idle_upstreams: "Callable[[], Awaitable[Mapping[str, FollowedUpstream]]]"
    """Makes what is needed to ask the upstreams of the settings, by their names, where no server follows them."""
    server: RunningServer | None = None
    """None: the ledger is open in this process alone, and no server runs on it here."""

    @property
    def is_alone(self) -> bool:
        """Whether nobody else has the ledger, so that a call that has not ended does not end meanwhile."""
        return self.server is None and not self.store.shared


class Operation(Struct, frozen=True):
    """One row of the operator's table. `path` may have variables, `{name}`."""

    method: str
    path: str
    handler: Callable[[OperatorParts, Exchange], Awaitable[Reply]]
    audit_as: AuditKind | None = None
    """The kind of the audit entry that is written once the operation is done; None where it changes nothing, or where
    its handler writes an entry of its own."""
    reads_json: bool = False
    needs_server: bool = False
    """Whether only a running server can answer."""

    def route(self, parts: OperatorParts) -> Route:
        """The row as a route that is the operator's alone."""
        handler = partial(self.handler, parts)
        return Route(
            self.method, self.path, handler, LIFECYCLE, self.reads_json, who="operator", audit_as=self.audit_as
        )
