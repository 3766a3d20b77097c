"""The operator's routes without a server: over a ledger that is opened here, for as long as it takes."""

import asyncio
from collections.abc import Callable
from typing import Any

from ..engine.approvals import Approvals
from ..lazy import load
from ..model.caller import Caller
from ..model.clock import SYSTEM_CLOCK
from ..model.errors import SetupError, ToolyardError
from ..server.admin import accounts as admin_connections
from ..server.admin import api_keys as admin_keys
from ..server.admin import audit as audit_routes
from ..server.admin import calls as admin_routes
from ..server.admin import secrets as admin_secrets
from ..server.admin import worker_tools
from ..server.admin.audit import AuditReader
from ..server.admin.calls import CallAdmin
from ..server.approvals import routes as approval_routes
from ..server.approvals.decisions import AuditedApprovals
from ..server.console import code
from ..server.console.login_sessions import Codes
from ..server.http.exchange import Exchange
from ..server.http.routes import RouteTable
from ..server.ledger import open_store
from ..server.settings.table import Settings
from ..trust.approvals.rules import ApprovalRules
from ..trust.audit.entry import Entry
from ..trust.audit.key_check import hold_to_ledger
from ..trust.audit.log import MAIN, VERBS, put
from ..trust.sealing.vault import Vault
from ..wires.contract import Reply, Request, Stream
from ..wires.lifecycle.calls import LIFECYCLE


class LedgerTransport:
    """Takes the place of HTTP."""

    def __init__(self, settings: Settings) -> None:
        """Opens the ledger. Raises StoreInUse, SchemaTooNew, StoreDown."""
        self._store, self._ring = open_store(settings, SYSTEM_CLOCK)
        self._is_audited = settings.audit != "off"
        self._own_url = settings.public_url or ""  # nothing is served here
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        desk = CallAdmin(self._store, alone=not self._store.shared)
        keys = admin_keys.ApiKeyAdmin(self._store.api_keys, SYSTEM_CLOCK.now, _nobody_else)
        secrets = admin_secrets.SecretAdmin(Vault(self._store.sealed, self._ring), SYSTEM_CLOCK.now)
        audit = AuditReader(self._store.audit, self._ring)
        approvals = ApprovalRules((), self._ring, settings.approval_wait_s, lambda: settings.public_url or "")
        approving = Approvals(self._store, approvals, settings.claim_wait_s)
        decisions = AuditedApprovals(approving, self._note, SYSTEM_CLOCK.now)

        def connections() -> Any:
            return load("connecting")(settings, self._store, self._ring, SYSTEM_CLOCK.now, _nobody).connections

        self._table = RouteTable(
            [
                *admin_routes.routes(desk),
                *admin_keys.routes(keys),
                *admin_secrets.routes(secrets),
                *audit_routes.routes(audit),
                *approval_routes.admin_routes(decisions),
                *worker_tools.routes(self._store),
                *admin_connections.routes(connections),
                *code.routes(Codes(self._store, self._ring), lambda _: _address(settings)),
            ]
        )

    def send(self, request: Request) -> Reply:
        return self._runner.run(self._answer(request))

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._store.close())

    async def _open(self) -> None:
        await self._store.open()
        await hold_to_ledger(self._ring, self._store)

    async def _answer(self, request: Request) -> Reply:
        exchange = Exchange({"query_string": request.query}, request.path, request.headers, self._own_url, _NoLine())
        exchange.body = request.body
        try:
            route = self._table.exact.get((request.method, request.path))
            if route is None:
                route, exchange.parameters = self._table.find(request.method, request.path)
            self._ring.may_make = bool(route.seen_as)
            if route.seen_as:
                self._ring.subkey("fingerprint")  # nothing is changed that could not be signed
            reply = await route.handler(exchange)
            if route.seen_as:
                await self._note(Entry(SYSTEM_CLOCK.now(), route.seen_as, tool=f"{request.method} {request.path}"))
        except SetupError:
            raise  # a key that is none, say: there is no server here whose fault it could be
        except ToolyardError as error:
            return LIFECYCLE.encode_error(error)
        assert not isinstance(reply, Stream)  # noqa: S101
        return reply

    async def _note(self, entry: Entry) -> None:
        """In the audit log, where there is one."""
        if self._is_audited:
            await put(self._store.audit, self._ring, VERBS if self._store.shared else MAIN, entry)


def _address(settings: Settings) -> str:
    """Of a server with these settings."""
    return settings.public_url or f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{settings.port}"


def _nobody(what: str, caller: Caller) -> None:
    """The route itself is in the audit log."""


async def _nobody_else() -> None:
    """There is nobody here who would have to know of a change."""


class _NoLine:
    """There is nobody to be answered early, and nobody who leaves."""

    def answer(self, reply: Reply | Stream) -> None: ...

    def when_gone(self, callback: Callable[[], object]) -> None: ...
