"""The operator's routes without a server: over a ledger that is opened here, for as long as it takes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ..doors import open_door
from ..engine.deciding import ApprovalDesk
from ..model.caller import Caller
from ..model.errors import SetupError, ToolyardError
from ..model.seam import SYSTEM
from ..trust.approvals import Approvals
from ..trust.audit import MAIN, VERBS, put
from ..trust.audit_entry import Entry
from ..trust.key_fit import hold_to_ledger
from ..trust.vault import Vault
from ..wires.contract import Reply, Request, Stream
from ..wires.lifecycle import LIFECYCLE
from . import (
    admin_connections,
    admin_console,
    admin_keys,
    admin_routes,
    admin_secrets,
    approval_routes,
    audit_routes,
    offer_routes,
)
from .admin import AdminDesk
from .audit import AuditDesk
from .console.sessions import Codes
from .decisions import Decisions
from .exchange import Exchange
from .ledger import open_store
from .routes import RouteTable
from .settings import Settings


class LedgerSending:
    """Takes the place of HTTP."""

    def __init__(self, settings: Settings) -> None:
        """Opens the ledger. Raises StoreInUse, SchemaTooNew, StoreDown."""
        self._store, self._ring = open_store(settings, SYSTEM)
        self._is_audited = settings.audit != "off"
        self._own_url = settings.public_url or ""  # nothing is served here
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._open())
        except BaseException:
            self._runner.close()
            raise
        desk = AdminDesk(self._store, alone=not self._store.shared)
        keys = admin_keys.KeyDesk(self._store, SYSTEM.now, _nobody_else)
        secrets = admin_secrets.SecretDesk(Vault(self._store, self._ring), SYSTEM.now)
        audit = AuditDesk(self._store, self._ring)
        approvals = Approvals((), self._ring, settings.approval_wait_s, lambda: settings.public_url or "")
        approving = ApprovalDesk(self._store, approvals, settings.claim_wait_s)
        decisions = Decisions(approving, self._note, SYSTEM.now)

        def connections() -> Any:
            return open_door("connecting")(settings, self._store, self._ring, SYSTEM.now, _nobody).connections

        self._table = RouteTable(
            [
                *admin_routes.routes(desk, _anybody),
                *admin_keys.routes(keys, _anybody),
                *admin_secrets.routes(secrets, _anybody),
                *audit_routes.routes(audit, _anybody),
                *approval_routes.admin_routes(decisions, _anybody),
                *offer_routes.routes(self._store, _anybody),
                *admin_connections.routes(connections, _anybody),
                *admin_console.routes(Codes(self._store, self._ring), _anybody, lambda _: _address(settings)),
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
                await self._note(Entry(SYSTEM.now(), route.seen_as, tool=f"{request.method} {request.path}"))
        except SetupError:
            raise  # a key that is none, say: there is no server here whose fault it could be
        except ToolyardError as error:
            return LIFECYCLE.encode_error(error)
        assert not isinstance(reply, Stream)  # noqa: S101
        return reply

    async def _note(self, entry: Entry) -> None:
        """In the audit log, where there is one."""
        if self._is_audited:
            await put(self._store, self._ring, VERBS if self._store.shared else MAIN, entry)


def _address(settings: Settings) -> str:
    """Of a server with these settings."""
    return settings.public_url or f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{settings.port}"


def _anybody(headers: Mapping[bytes, bytes]) -> None:
    """Who may open the ledger may do this."""


def _nobody(what: str, caller: Caller) -> None:
    """The route itself is in the audit log."""


async def _nobody_else() -> None:
    """There is nobody here who would have to know of a change."""


class _NoLine:
    """There is nobody to be answered early, and nobody who leaves."""

    def answer(self, reply: Reply | Stream) -> None: ...

    def when_gone(self, callback: Callable[[], object]) -> None: ...
