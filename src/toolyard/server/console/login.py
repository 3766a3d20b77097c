"""How a browser logs in to the console and out of it: with a code from `toolyard console`, which is good once, and from
then on with a cookie that names its session.

The operator's token never goes to a browser. The cookie is sent by this server's own pages alone (`SameSite=Strict`),
no script can read it, and over TLS its name is one that only this very host can set.
"""

from html import escape

from ...model.errors import ForeignPage, RequestError
from ...store.contract import NoteStore
from ...text.addresses import is_safe
from ...trust.audit.entry import AuditKind
from ...trust.sealing.ring import KeyRing
from ...wires.admin.console_code import ConsoleCode
from ...wires.contract import Reply
from ..http.exchange import Exchange
from ..intake.witness import Witness
from ..pages.forms import Browser, Forms, cookie_name, cookie_of, is_https
from ..pages.layout import FORM, alert, html, page, paragraph
from .login_sessions import CODE_S, SESSION_S, Codes, LoginSessions, WrongCodes
from .page import ROOT

ENTER, LEAVE = f"{ROOT}/enter", f"{ROOT}/leave"
COOKIE = "toolyard-console"
TITLE = "toolyard console"
FIELDS = (
    "<label for='code'>Code</label>"
    "<input id='code' name='code' type='text' required maxlength='30' autofocus aria-describedby='where'>"
    f"<p id='where'>Whoever runs the server gets one with <code>toolyard console</code>. It is good once, for "
    f"{CODE_S / 60:.0f} minutes.</p>"
)
NOT_PRIVATE = (
    "The console is shown over https, or on the machine that the server runs on: here others could read along. "
    "Behind a proxy, set public_url to the address that browsers use."
)
TOO_MANY = "This code is not good, and too many wrong codes came from your address. Get a new one with toolyard console"
WRONG = "This code is not good: it was mistyped, used before, or is older than ten minutes. Get a new one"


async def new_code(store: NoteStore, ring: KeyRing, base_url: str) -> ConsoleCode:
    """A code for an operator. `base_url` is the address at which people find the server."""
    return ConsoleCode(base_url + ENTER, await Codes(store, ring).new(), CODE_S)


class ConsoleLogin:
    """Handles the page that asks for a code, the session that a good code begins, and its end. Wrong codes, logins and
    logouts are in the audit log."""

    def __init__(
        self, forms: Forms, codes: Codes, sessions: LoginSessions, wrong_codes: WrongCodes, witness: Witness
    ) -> None:
        self._forms, self._codes, self._sessions = forms, codes, sessions
        self._wrong_codes, self._witness = wrong_codes, witness

    async def session_of(self, exchange: Exchange) -> str | None:
        """The session of the browser that sent this request; None where it has none, or one that is over."""
        id = cookie_of(exchange, COOKIE) if is_safe(exchange.base_url()) else None
        return id if id is not None and await self._sessions.has(id) else None

    async def show(self, exchange: Exchange) -> Reply:
        if not is_safe(exchange.base_url()):
            return self._page(exchange, alert(NOT_PRIVATE), 403)
        if await self.session_of(exchange) is not None:
            return _go(exchange, ROOT)
        return self._ask(exchange)

    async def enter(self, exchange: Exchange) -> Reply:
        if not is_safe(exchange.base_url()):
            return self._page(exchange, alert(NOT_PRIVATE), 403)
        try:
            fields = self._forms.read(exchange, _url(exchange, ENTER))
        except RequestError as error:
            return self._page(exchange, alert(error.message), 403)
        # Counted before the code is looked up, so that of many requests at once only a few are written down.
        is_one_of_few = self._wrong_codes.add(exchange.address)
        if not await self._codes.take(fields.get("code", "")):
            if not is_one_of_few:
                return self._ask(exchange, TOO_MANY)
            self._witness.did(AuditKind.AUTH, "a wrong code for the console", None, exchange.address)
            await self._witness.written()
            return self._ask(exchange, WRONG)
        self._wrong_codes.forget(exchange.address)
        id = await self._sessions.begin()
        self._witness.did(AuditKind.ADMIN, "console: a browser came in", None, exchange.address)
        await self._witness.written()
        return _go(exchange, ROOT, _cookie(exchange, id, SESSION_S))

    async def leave(self, exchange: Exchange) -> Reply:
        """Ends the session and takes the cookie away, also where the session is over already, if the form is one of
        this server's."""
        id = cookie_of(exchange, COOKIE)
        try:
            if id is None:
                raise ForeignPage("You are not signed in")
            self._forms.read(exchange, _url(exchange, LEAVE), Browser(id))
        except RequestError as error:
            return self._page(exchange, alert(error.message), 403)
        if await self.session_of(exchange) is not None:
            await self._sessions.end(id)
            self._witness.did(AuditKind.ADMIN, "console: a browser signed out", None, exchange.address)
            await self._witness.written()
        return _go(exchange, ENTER, _cookie(exchange, "", 0))

    def turn_away(self, exchange: Exchange) -> Reply:
        """The reply to a browser without a session, whatever it asked for."""
        if exchange.method in ("GET", "HEAD"):
            return _go(exchange, ENTER)
        said = alert("You are not signed in, or no longer. Nothing was changed")
        link = f"<p><a href='{escape(_url(exchange, ENTER))}'>Sign in</a></p>"
        return self._page(exchange, said + link, 403)

    def _ask(self, exchange: Exchange, wrong: str = "") -> Reply:
        browser = self._forms.browser(exchange)
        form = self._forms.form(browser, _url(exchange, ENTER), FIELDS, "Enter")
        said = alert(wrong) if wrong else paragraph("What this server has, does and waits for, for whoever runs it.")
        return self._forms.reply(browser, page(TITLE, said + form, exchange.base_url()), 403 if wrong else 200)

    def _page(self, exchange: Exchange, body: str, status: int) -> Reply:
        return html(page(TITLE, body, exchange.base_url()), status, FORM)


def _url(exchange: Exchange, path: str) -> str:
    return exchange.base_url() + path


def _go(exchange: Exchange, path: str, cookie: bytes | None = None) -> Reply:
    cookies = [] if cookie is None else [(b"set-cookie", cookie)]
    there = (b"location", _url(exchange, path).encode())
    return Reply(303, b"", [there, (b"cache-control", b"no-store"), *cookies])


def _cookie(exchange: Exchange, id: str, keep_s: float) -> bytes:
    url = exchange.base_url()
    secure = "; Secure" if is_https(url) else ""
    name = cookie_name(url, COOKIE)
    return f"{name}={id}; Path=/; Max-Age={keep_s:.0f}; HttpOnly; SameSite=Strict{secure}".encode()
