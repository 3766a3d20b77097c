"""Where a person completes a challenge, and where a program asks how it stands.

A challenge's address cannot be guessed, and who opens it shows that they are meant: they sign in at the issuer that
knows them, or else are asked for the challenge's code. Where no provider is set up, no challenge can be completed, and
the honest answer ends a client's polling.
"""

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ...lazy import load
from ...model.errors import ForeignPage, LimitReached, RequestError
from ...text.addresses import is_safe
from ...trust.audit.entry import AuditKind
from ...trust.limits.credential_failures import CredentialFailures
from ...trust.requirements.challenges import Challenged
from ...wires.contract import JSON, Reply
from ...wires.errors import encode
from ...wires.oxp import oxp
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Route
from ..intake.witness import Witness
from ..pages.forms import Browser, Forms, cookie_of
from ..pages.layout import FORM, html

if TYPE_CHECKING:
    from ...trust.requirements.connect_flow import ConnectFlow
    from ...trust.requirements.sign_in_flow import SignInFlow
    from .parts import AccountParts

NOT_VALID = "This link is not valid, or has run out. Have the tool called again for a new one."
NO_MORE = "This was refused, or the wrong code was given too often. Have the tool called again for a new link."
WRONG = "This is not the code. It stands beside the link, in the answer to the call."
NOT_PRIVATE = (
    "This page was opened over plain http, where others could read along. "
    "Whoever runs the server sets public_url to its https address."
)
TWICE = "This answer says something twice, and is not taken."
NO_BUTTON = "Press one of the buttons: they say where you can sign in."
NOT_THERE = "Nobody can sign in for this any more. Have the tool called again for a new link."
SIGNED_IN = "/connections/signed-in"
"""Where people come back to who signed in. A provider's callback has another segment."""
MOST_SAID = 32


class AccountHandlers:
    """Shows the pages. `failures` limits wrong codes by address."""

    def __init__(
        self, connecting: "AccountParts | None", forms: Forms, failures: CredentialFailures | None, witness: Witness
    ) -> None:
        self._connecting, self._forms, self._failures, self._witness = connecting, forms, failures, witness

    def routes(self) -> list[Route]:
        """Those that the OpenAPI document has."""
        return [
            Route("GET", "/authorize/{challenge}", self._show, oxp.FLAT, who="anyone"),
            Route("GET", "/authorize/{challenge}/status", self._status, oxp.FLAT, who="anyone"),
        ]

    def forms(self) -> list[Route]:
        """Those that only a browser is led to."""
        if self._connecting is None:
            return []
        return [
            Route("POST", "/authorize/{challenge}", self._send_off, oxp.FLAT, reads_form=True, who="anyone"),
            Route("GET", "/connections/{provider}/callback", self._take_back, oxp.FLAT, who="anyone"),
            Route("GET", SIGNED_IN, self._signed_in, oxp.FLAT, who="anyone"),
        ]

    async def _status(self, exchange: Exchange) -> Reply:
        standing = "failed"
        if self._connecting is not None:
            standing = await self._connecting.authorizing.challenges.status(exchange.parameters["challenge"])
        return Reply(200, encode({"status": standing}), [JSON, oxp.VERSION, (b"cache-control", b"no-store")])

    async def _show(self, exchange: Exchange) -> Reply:
        asked = await self._open(exchange)
        return asked if isinstance(asked, Reply) else await self._ask(exchange, asked)

    async def _send_off(self, exchange: Exchange) -> Reply:
        asked = await self._open(exchange)
        if isinstance(asked, Reply):
            return asked
        try:
            if self._failures is not None:
                self._failures.refuse(exchange.address, exchange.headers)
            given = self._forms.read(exchange, _action(exchange))
        except (RequestError, LimitReached) as error:
            status = 403 if isinstance(error, ForeignPage) else 400
            return _failed(exchange, error.message, status, exchange.parameters["challenge"])
        text = exchange.parameters["challenge"]
        if asked.issuers:
            return await self._have_sign_in(exchange, asked, given)
        if not await self._authorizing.challenges.is_code(text, asked, given.get("code", "")):
            return await self._wrong(exchange, asked)
        return await self._to_provider(exchange, text, asked)

    async def _have_sign_in(self, exchange: Exchange, asked: Challenged, given: dict[str, str]) -> Reply:
        pages = load("authorize_pages")
        issuer, anew = given.get(pages.ISSUER, ""), pages.ANEW in given
        if issuer not in self._signing_in.offered(asked):
            return await self._ask(exchange, asked, NO_BUTTON)
        text, browser, base_url = exchange.parameters["challenge"], cookie_of(exchange) or "", exchange.base_url()
        try:
            address = await self._signing_in.leave(text, issuer, browser, base_url + SIGNED_IN, anew=anew)
        except load("not_connected") as failure:
            return _failed(exchange, str(failure), 503, failure.challenge)
        return html(pages.go(issuer, "who you are", address, base_url), headers=FORM)

    async def _signed_in(self, exchange: Exchange) -> Reply:
        """Whoever is meant goes on to the provider."""
        said = _said(exchange)
        if isinstance(said, Reply):
            return said
        try:
            signed_in = await self._signing_in.arrive(said, cookie_of(exchange))
        except load("not_connected") as failure:
            await self._witness.written()
            return _failed(exchange, str(failure), 400, failure.challenge)
        if signed_in.is_right:
            return await self._to_provider(exchange, signed_in.challenge, signed_in.asked)
        await self._witness.written()
        browser, base_url = self._forms.browser(exchange), exchange.base_url()
        action = _address(exchange, signed_in.challenge)
        shown = load("authorize_pages").somebody_else(self._forms, browser, action, signed_in.issuer, base_url)
        return self._forms.reply(browser, shown, 403)

    async def _to_provider(self, exchange: Exchange, challenge: str, asked: Challenged) -> Reply:
        """Whoever has shown that they are meant."""
        pages, base_url = load("authorize_pages"), exchange.base_url()
        if asked.provider not in self._authorizing.providers:
            return html(pages.not_set_up(asked.provider, base_url))
        back = f"{base_url}/connections/{asked.provider}/callback"
        try:
            address = await self._authorizing.leave(challenge, asked, cookie_of(exchange) or "", back)
        except load("not_connected") as failure:
            return _failed(exchange, str(failure), 503, failure.challenge)
        return html(pages.go(asked.provider, "whether you allow it", address, base_url), headers=FORM)

    async def _take_back(self, exchange: Exchange) -> Reply:
        if exchange.parameters["provider"] not in self._authorizing.providers:
            return _failed(exchange, "This server does not know that provider.", 404)
        said = _said(exchange)
        if isinstance(said, Reply):
            return said
        try:
            connected = await self._authorizing.arrive(exchange.parameters["provider"], said, cookie_of(exchange))
        except load("not_connected") as failure:
            await self._witness.written()
            return _failed(exchange, str(failure), 400)
        await self._witness.written()
        shown = load("authorize_pages").done(connected.asked, connected.account, exchange.base_url())
        return html(shown, headers=FORM)

    # -- parts of it -------------------------------------------------------------------------------

    @property
    def _authorizing(self) -> "ConnectFlow":
        assert self._connecting is not None  # noqa: S101
        return self._connecting.authorizing

    @property
    def _signing_in(self) -> "SignInFlow":
        assert self._connecting is not None  # noqa: S101
        return self._connecting.signing_in

    async def _open(self, exchange: Exchange) -> Challenged | Reply:
        """What a challenge asks, or the page that says why it cannot be completed."""
        pages, base_url, text = load("authorize_pages"), exchange.base_url(), exchange.parameters["challenge"]
        if self._connecting is None:
            return html(pages.not_set_up(query.text(exchange, "provider") or "a provider", base_url))
        challenges = self._authorizing.challenges
        asked, standing = challenges.open(text), await challenges.status(text)
        if standing == "completed":
            return html(pages.settled(base_url), headers=FORM)
        if asked is None:
            return _failed(exchange, NOT_VALID, 404)
        if asked.provider not in self._authorizing.providers:
            return html(pages.not_set_up(asked.provider, base_url))
        if standing == "failed":
            return _failed(exchange, NO_MORE, 410)
        if asked.issuers and not self._signing_in.offered(asked):
            return _failed(exchange, NOT_THERE, 410)
        return asked if is_safe(base_url) else _failed(exchange, NOT_PRIVATE, 400)

    async def _wrong(self, exchange: Exchange, asked: Challenged) -> Reply:
        if self._failures is not None:
            self._failures.note(exchange.address, exchange.headers)
        if await self._authorizing.challenges.status(exchange.parameters["challenge"]) == "failed":
            what = f"failed {asked.provider}: wrong codes"
            self._witness.did(AuditKind.CONNECTION, what, asked.caller, exchange.address)
            await self._witness.written()
            return _failed(exchange, NO_MORE, 410)
        return await self._ask(exchange, asked, WRONG)

    async def _ask(self, exchange: Exchange, asked: Challenged, problem: str = "") -> Reply:
        browser: Browser = self._forms.browser(exchange)
        scopes, pages, action = await self._authorizing.scopes(asked), load("authorize_pages"), _action(exchange)
        about = (self._forms, browser, action, asked, scopes, exchange.base_url())
        if asked.issuers:
            shown = pages.sign_in(*about, self._signing_in.offered(asked), problem)
        else:
            shown = pages.ask(*about, problem)
        return self._forms.reply(browser, shown, 403 if problem else 200)


def _said(exchange: Exchange) -> dict[str, str] | Reply:
    """What a provider or an issuer sends with a browser, or what is wrong with it."""
    pairs = parse_qsl(exchange.query.decode("latin-1"), keep_blank_values=True)[:MOST_SAID]
    said = dict(pairs)
    return said if len(said) == len(pairs) else _failed(exchange, TWICE, 400)


def _action(exchange: Exchange) -> str:
    return _address(exchange, exchange.parameters["challenge"])


def _address(exchange: Exchange, challenge: str) -> str:
    return f"{exchange.base_url()}/authorize/{challenge}"


def _failed(exchange: Exchange, reason: str, status: int, challenge: str = "") -> Reply:
    """`challenge` can be tried once more."""
    again = _address(exchange, challenge) if challenge else ""
    return html(load("authorize_pages").failed(reason, exchange.base_url(), again), status, FORM)
