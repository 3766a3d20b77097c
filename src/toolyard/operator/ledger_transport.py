"""The operator's table without a server: it is served here, over a ledger that is opened for as long as a verb takes.

An operator's verb sends the same requests whether a server runs or not; where none does, they end here instead of at a
socket. `reach.py` decides which.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..engine.approvals import Approvals
from ..lazy import load
from ..model.caller import Caller
from ..model.clock import SYSTEM_CLOCK
from ..model.errors import SetupError, ToolyardError
from ..server.admin import table as operator_table
from ..server.admin.operation import OperatorParts
from ..server.app.gateway import idle_upstreams
from ..server.approvals.decisions import AuditedApprovals
from ..server.console.login import new_code
from ..server.http.exchange import Exchange
from ..server.http.routes import RouteTable
from ..server.ledger import open_store
from ..server.settings.table import Settings
from ..server.sources import upstreams_of
from ..trust.approvals.links import ApprovalLinks
from ..trust.audit.entry import Entry
from ..trust.audit.key_check import hold_to_ledger
from ..trust.audit.log import MAIN, VERBS, put
from ..trust.requirements.secrets import HeldSecrets
from ..trust.sealing.vault import Vault
from ..wires.contract import Reply, Request, Stream
from ..wires.lifecycle.calls import LIFECYCLE

if TYPE_CHECKING:
    from ..trust.requirements.accounts import Accounts


class LedgerTransport:
    """A `Transport` that answers an operator's requests itself, from a ledger that it holds open. An entry in the audit
    log is written as a server would write it."""

    def __init__(self, settings: Settings) -> None:
        """Opens the ledger. Raises StoreInUse, SchemaTooNew, StoreDown."""
        self._store, self._ring = open_store(settings, SYSTEM_CLOCK)
        self._is_audited = settings.audit != "off"
        self._own_url = settings.public_url or ""  # nothing is served here, so there is no other address
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        self._table = RouteTable(operator_table.routes(self._parts(settings)))

    def send(self, request: Request) -> Reply:
        return self._runner.run(self._answer(request))

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._store.close())

    def _parts(self, settings: Settings) -> OperatorParts:
        store, ring, now = self._store, self._ring, SYSTEM_CLOCK.now
        links = ApprovalLinks(ring, lambda: self._own_url)
        approvals = Approvals(store, links, settings.claim_wait_s, settings.approval_wait_s)
        decisions = AuditedApprovals(approvals, self._note, now)

        def accounts() -> "Accounts":
            loaded: Accounts = load("connecting")(settings, store, ring, now, _not_noted).connections
            return loaded

        return OperatorParts(
            store,
            ring,
            now,
            decisions,
            accounts,
            lambda _: new_code(store, ring, _address(settings)),
            lambda: idle_upstreams(upstreams_of(settings), store, HeldSecrets(Vault(store.sealed, ring), now)),
        )

    async def _open(self) -> None:
        await self._store.open()
        await hold_to_ledger(self._ring, self._store)

    async def _answer(self, request: Request) -> Reply:
        exchange = Exchange({"query_string": request.query}, request.path, request.headers, self._own_url, _NoLine())
        exchange.body = request.body
        try:
            route, exchange.parameters = self._table.find(request.method, request.path)
            # Reading must not leave a new key file behind. A change needs the key at once: it could not be signed else.
            self._ring.may_make = route.audit_as is not None
            if route.audit_as is not None:
                self._ring.subkey("fingerprint")
            reply = await route.handler(exchange)
            if route.audit_as is not None:
                await self._note(Entry(SYSTEM_CLOCK.now(), route.audit_as, tool=f"{request.method} {request.path}"))
        except SetupError:
            raise  # such as a bad key in the settings: whoever runs the verb has to mend that, no server has failed
        except ToolyardError as error:
            return LIFECYCLE.encode_error(error)
        assert not isinstance(reply, Stream)  # noqa: S101
        return reply

    async def _note(self, entry: Entry) -> None:
        """Writes to the audit log, unless it is off."""
        if self._is_audited:
            await put(self._store.audit, self._ring, VERBS if self._store.shared else MAIN, entry)


def _address(settings: Settings) -> str:
    """The address of a server with these settings."""
    return settings.public_url or f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{settings.port}"


def _not_noted(what: str, caller: Caller) -> None:
    """Accounts tell of each change; here the operation itself is in the audit log, and that is enough."""


class _NoLine:
    """The reply line of a request that came over no connection: nobody waits for an early reply, and nobody leaves."""

    def answer(self, reply: Reply | Stream) -> None: ...

    def when_gone(self, callback: Callable[[], object]) -> None: ...
