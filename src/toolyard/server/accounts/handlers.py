"""The handlers of the pages on which a person completes a challenge by connecting an account, and of the address at
which a program asks how the challenge stands.

A challenge's address cannot be guessed, and a person who opens it also shows that they are meant: they sign in at the
issuer that knows them, or else give the challenge's code. Where no provider is set up, no challenge can be completed;
its status is then `failed`, which ends a client's polling.
"""

from typing import TYPE_CHECKING

from ...lazy import load
from ...model.errors import ForeignPage, LimitReached, RequestError
from ...text.addresses import is_safe
from ...text.percent import parameters
from ...trust.audit.entry import AuditKind
from ...trust.limits.credential_failures import CredentialFailures
from ...trust.requirements.challenges import Challenged
from ...trust.sealing.ring import KeyRing
from ...wires.contract import JSON, Reply
from ...wires.errors import encode
from ...wires.oxp import oxp
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Handler
from ..intake.witness import Witness
from ..pages.forms import Browser, Forms, cookie_of
from ..pages.layout import FORM, html
from ..pages.page_routes import Address
from . import pages
from .routes import CALLBACK, CHALLENGE, SIGNED_IN, STATUS

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
MOST_PARAMETERS = 32
"""How many query parameters of a provider or issuer are read."""


class AccountHandlers:
    """The handlers of a challenge's page, of its form, and of the addresses to which providers and issuers send people
    back. `connecting` is None where no provider is set up; `failures` limits wrong codes by address."""

    def __init__(
        self, connecting: "AccountParts | None", ring: KeyRing, failures: CredentialFailures | None, witness: Witness
    ) -> None:
        self._connecting, self._forms, self._failures, self._witness = connecting, Forms(ring), failures, witness

    def handlers(self) -> dict[Address, Handler]:
        return {
            ("GET", CHALLENGE): self._show,
            ("GET", STATUS): self._status,
            ("POST", CHALLENGE): self._submit,
            ("GET", CALLBACK): self._callback,
            ("GET", SIGNED_IN): self._signed_in,
        }

    async def _status(self, exchange: Exchange) -> Reply:
        status = "failed"
        if self._connecting is not None:
            status = await self._connecting.authorizing.challenges.status(exchange.parameters["challenge"])
        return Reply(200, encode({"status": status}), [JSON, oxp.VERSION, (b"cache-control", b"no-store")])

    async def _show(self, exchange: Exchange) -> Reply:
        asked = await self._open(exchange)
        return asked if isinstance(asked, Reply) else await self._ask(exchange, asked)

    async def _submit(self, exchange: Exchange) -> Reply:
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
            return await self._send_to_issuer(exchange, asked, given)
        if not await self._authorizing.challenges.is_code(text, asked, given.get("code", "")):
            return await self._wrong(exchange, asked)
        return await self._to_provider(exchange, text, asked)

    async def _send_to_issuer(self, exchange: Exchange, asked: Challenged, given: dict[str, str]) -> Reply:
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
        """A person comes back from an issuer: if they are meant, they go on to the provider."""
        parameters = _parameters(exchange)
        if isinstance(parameters, Reply):
            return parameters
        try:
            signed_in = await self._signing_in.arrive(parameters, cookie_of(exchange))
        except load("not_connected") as failure:
            await self._witness.written()
            return _failed(exchange, str(failure), 400, failure.challenge)
        if signed_in.is_right:
            return await self._to_provider(exchange, signed_in.challenge, signed_in.asked)
        await self._witness.written()
        browser, base_url = self._forms.browser(exchange), exchange.base_url()
        action = _address(exchange, signed_in.challenge)
        shown = pages.somebody_else(self._forms, browser, action, signed_in.issuer, base_url)
        return self._forms.reply(browser, shown, 403)

    async def _to_provider(self, exchange: Exchange, challenge: str, asked: Challenged) -> Reply:
        """Sends a person who has shown that they are meant on to the provider."""
        base_url = exchange.base_url()
        if asked.provider not in self._authorizing.providers:
            return html(pages.not_set_up(asked.provider, base_url))
        back = f"{base_url}/connections/{asked.provider}/callback"
        try:
            address = await self._authorizing.leave(challenge, asked, cookie_of(exchange) or "", back)
        except load("not_connected") as failure:
            return _failed(exchange, str(failure), 503, failure.challenge)
        return html(pages.go(asked.provider, "whether you allow it", address, base_url), headers=FORM)

    async def _callback(self, exchange: Exchange) -> Reply:
        if exchange.parameters["provider"] not in self._authorizing.providers:
            return _failed(exchange, "This server does not know that provider.", 404)
        parameters = _parameters(exchange)
        if isinstance(parameters, Reply):
            return parameters
        try:
            connected = await self._authorizing.arrive(exchange.parameters["provider"], parameters, cookie_of(exchange))
        except load("not_connected") as failure:
            await self._witness.written()
            return _failed(exchange, str(failure), 400)
        await self._witness.written()
        shown = pages.done(connected.asked, connected.account, exchange.base_url())
        return html(shown, headers=FORM)

    # -- what the handlers share -------------------------------------------------------------------

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
        base_url, text = exchange.base_url(), exchange.parameters["challenge"]
        if self._connecting is None:
            return html(pages.not_set_up(query.text(exchange, "provider") or "a provider", base_url))
        challenges = self._authorizing.challenges
        asked, status = challenges.open(text), await challenges.status(text)
        if status == "completed":
            return html(pages.settled(base_url), headers=FORM)
        if asked is None:
            return _failed(exchange, NOT_VALID, 404)
        if asked.provider not in self._authorizing.providers:
            return html(pages.not_set_up(asked.provider, base_url))
        if status == "failed":
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
        scopes, action = await self._authorizing.scopes(asked), _action(exchange)
        about = (self._forms, browser, action, asked, scopes, exchange.base_url())
        if asked.issuers:
            shown = pages.sign_in(*about, self._signing_in.offered(asked), problem)
        else:
            shown = pages.ask(*about, problem)
        return self._forms.reply(browser, shown, 403 if problem else 200)


def _parameters(exchange: Exchange) -> dict[str, str] | Reply:
    """The query parameters that a provider or an issuer sent with the browser, or the page that refuses them."""
    first = b"&".join(exchange.query.split(b"&")[:MOST_PARAMETERS])
    pairs = parameters(first.decode("latin-1"))
    given = dict(pairs)
    return given if len(given) == len(pairs) else _failed(exchange, TWICE, 400)


def _action(exchange: Exchange) -> str:
    return _address(exchange, exchange.parameters["challenge"])


def _address(exchange: Exchange, challenge: str) -> str:
    return f"{exchange.base_url()}/authorize/{challenge}"


def _failed(exchange: Exchange, reason: str, status: int, challenge: str = "") -> Reply:
    """The page that says why nothing was connected; with a link where `challenge` can be tried once more."""
    again = _address(exchange, challenge) if challenge else ""
    return html(pages.failed(reason, exchange.base_url(), again), status, FORM)
