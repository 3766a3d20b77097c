"""What stands before every route: whether a request may be here, and who sent it.

`Admission` joins the parts that decide that, in the order in which the shell asks them: the guard against foreign
pages, too many failures from one address, and the credentials. What it refuses is noted in the
audit log.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any

from msgspec.structs import replace

from ...model.caller import Caller
from ...model.errors import NotAuthenticated, ToolyardError
from ...store.values import StoreDown
from ...trust.access.identity import CREDENTIAL_HEADERS
from ...trust.audit.entry import AuditKind
from ...trust.credentials.authentication import Authenticate
from ...trust.credentials.expiry import CredentialExpiry
from ...trust.limits.credential_failures import CredentialFailures
from ..intake.witness import Witness
from .exchange import Exchange
from .origins import Guard
from .query import pairs
from .routes import Route

METADATA = "/.well-known/oauth-protected-resource"
_CREDENTIALS = frozenset(CREDENTIAL_HEADERS)
_IN_QUERY = frozenset({"access_token", "token", "api_key"})
"""Names of parameters in which clients are known to send credentials (RFC 6750, section 2.3, and habits)."""


class Admission:
    """Lets requests in: says who sent one, or why it is refused."""

    def __init__(
        self,
        guard: Guard,
        authenticate: Authenticate,
        witness: Witness,
        *,
        has_issuers: bool,
        failures: CredentialFailures | None = None,
        by_address: bool = False,
        operator: Callable[[Mapping[bytes, bytes]], None] = lambda headers: None,
        validity: CredentialExpiry | None = None,
    ) -> None:
        """`failures` counts wrong credentials, where that is limited; `by_address`: whether a limit depends on where
        callers are, so that they have to know their address; `operator` admits whoever runs the server; `validity`
        knows when credentials end that somebody was let in with."""
        self.admit_operator, self.validity = operator, validity
        self.guard, self._authenticate, self._witness = guard.check, authenticate, witness
        self._failures = failures
        self.adopt(has_issuers=has_issuers, by_address=by_address)

    def adopt(self, *, has_issuers: bool, by_address: bool) -> None:
        """Has these hold from now on."""
        self._has_issuers, self._by_address = has_issuers, by_address

    def admit(self, scope: Mapping[str, Any], exchange: Exchange) -> Caller | Awaitable[Caller]:
        """The caller of a request. Raises NotAuthenticated, or LimitReached after too many of those; at once or when
        awaited."""
        # Before the credentials are looked at: whoever guesses must not learn from the answer that one was right.
        failures = self._failures
        if failures is not None:
            failures.refuse(exchange.address, exchange.headers)
        try:
            if len(exchange.headers) != len(scope["headers"]):  # some header is there twice
                _refuse_two_credentials(scope["headers"])
            if exchange.query:
                _refuse_credentials_in(exchange.query)
            caller = self._authenticate(exchange.headers)
        except NotAuthenticated as error:
            raise self._refused(error, exchange) from None
        if type(caller) is not Caller:
            return self._later(caller, exchange)  # type: ignore[arg-type]
        if failures is not None and failures.is_watchful:
            failures.let_in(exchange.address, exchange.headers)
        return caller if not self._by_address else _at(caller, exchange.address)

    async def refusal(self, scope: Mapping[str, Any], exchange: Exchange) -> ToolyardError:
        """What a request is refused with whose credentials ended while it waited: as a new one with them would be."""
        try:
            caller = self.admit(scope, exchange)
            if type(caller) is not Caller:
                await caller  # type: ignore[misc]
        except ToolyardError as error:
            return error
        return self._refused(NotAuthenticated("The credentials are not valid"), exchange)

    async def done(self, kind: AuditKind, method: str, exchange: Exchange) -> None:
        """Puts what a request did into the audit log, for routes whose handler does not do so itself."""
        caller = exchange.caller if exchange.is_admitted else None
        self._witness.did(kind, f"{method} {exchange.path}", caller, exchange.address)
        await self._witness.written()

    async def turned_away(self, error: NotAuthenticated, route: Route | None, exchange: Exchange) -> None:
        """Somebody was not admitted, which is written before they are told, where the log is strict. A log that cannot
        be written changes nothing: they are refused in any case."""
        if route is not None and route.who == "operator":
            self._witness.refused(error, None, exchange.address, exchange.path)
        with suppress(StoreDown):
            await self._witness.written()

    async def _later(self, caller: Awaitable[Caller], exchange: Exchange) -> Caller:
        """As `admit`, where an issuer has to be asked first."""
        try:
            found = await caller
        except NotAuthenticated as error:
            raise self._refused(error, exchange) from None
        if self._failures is not None and self._failures.is_watchful:
            self._failures.let_in(exchange.address, exchange.headers)
        return found if not self._by_address else _at(found, exchange.address)

    def _refused(self, error: NotAuthenticated, exchange: Exchange) -> NotAuthenticated:
        """The error for a request that is refused, noted in the log and, where it had credentials, among the failures.
        It says where tokens are to be had, where somebody gives them out (RFC 9728, section 5.1)."""
        self._witness.refused(error, None, exchange.address, exchange.path)
        if self._failures is not None and not _CREDENTIALS.isdisjoint(exchange.headers):
            self._failures.note(exchange.address, exchange.headers)  # a request without any guesses nothing
        if self._has_issuers:
            error.challenge = f'Bearer resource_metadata="{metadata_of(exchange)}"'
        return error


def _at(caller: Caller, address: str) -> Caller:
    return replace(caller, address=address)


def metadata_of(exchange: Exchange) -> str:
    """The address of the document that describes the resource that was asked for (RFC 9728, section 3)."""
    return f"{exchange.base_url()}{METADATA}{'/mcp' if exchange.path.startswith('/mcp') else ''}"


def _refuse_two_credentials(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raises NotAuthenticated: whoever stood before us may have looked at the other one."""
    given = [name for name, _ in headers if name in _CREDENTIALS]
    if len(given) != len(set(given)):
        raise NotAuthenticated("The credentials are not valid", developer_message="credentials are there twice")


def _refuse_credentials_in(query: bytes) -> None:
    """Raises NotAuthenticated for credentials in an address, which proxies, logs and browsers keep, and InvalidInput
    for too many parameters."""
    if _IN_QUERY & {name for name, _ in pairs(query)}:
        raise NotAuthenticated(
            "Credentials do not belong into an address", developer_message="send them in the header Authorization"
        )


class OperatorsToken:
    """The token of whoever runs the server, for the operator's routes and nothing else. It is made anew at each start
    unless the settings have one, and stands in a file beside the ledger."""

    def __init__(self, given: str | None = None) -> None:
        self.text = given or secrets.token_urlsafe(32)

    def __call__(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises NotAuthenticated for a request without the token, in the words that a caller would be refused with:
        these routes look like all others."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given.strip():
            raise NotAuthenticated("Credentials are needed")
        if not compare_digest(given.strip(), self.text.encode()):
            raise NotAuthenticated("The credentials are not valid")
