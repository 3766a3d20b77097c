"""Forms on pages: a form that is sent must be one that this very browser was given, for this very address.

A browser is known by a cookie with a random id. Each form carries a signature over that id and the address that it is
sent to; a request that another page makes a browser send has neither that signature nor this server's `Origin`.
"""

import re
import secrets
from hmac import compare_digest
from html import escape
from urllib.parse import urlsplit

from msgspec import Struct

from ...model.errors import BodyTooLarge, ForeignPage, MalformedRequest, UnsupportedMediaType
from ...text import base64url
from ...text.percent import parameters
from ...trust.sealing.ring import KeyRing
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .layout import FORM, html

PURPOSE = "form"
FIELD = "form"
"""The name of the signature's field."""
MEDIA = b"application/x-www-form-urlencoded"
LARGEST = 64 * 2**10
"""How many bytes a form may have."""
LARGEST_COOKIES, MOST_COOKIES = 16 * 2**10, 200
"""What a browser may send of them, this server's among them: browsers keep fewer for one host. Among more, none is
looked for, because anybody can send as many as a header has room for."""
COOKIE = "toolyard"
_id = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch


class Browser(Struct, frozen=True):
    """A browser, by an id that nobody else knows. `cookie` is the header that gives it the id, empty where it has it
    already."""

    id: str
    cookie: bytes = b""


class Forms:
    """Makes forms that are signed for one browser, and reads them when they are sent."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def browser(self, exchange: Exchange) -> Browser:
        """The browser that sent this request. A new one gets its cookie with the reply (`reply`)."""
        known = cookie_of(exchange)
        if known is not None:
            return Browser(known)
        id = secrets.token_urlsafe(32)
        secure = "; Secure" if is_https(exchange.base_url()) else ""
        return Browser(id, f"{cookie_name(exchange.base_url())}={id}; Path=/; HttpOnly; SameSite=Lax{secure}".encode())

    def form(self, browser: Browser, action: str, fields: str, button: str = "") -> str:
        """A form as HTML. `action` is the address of this server that it is sent to; `fields` is HTML, and has the
        buttons where `button` names none."""
        submit = f"<button type='submit'>{escape(button)}</button>" if button else ""
        return (
            f"<form method='post' action='{escape(action)}' autocomplete='off'>"
            f"<input type='hidden' name='{FIELD}' value='{self._sign(browser, action)}'>{fields}"
            f"{submit}</form>"
        )

    def reply(self, browser: Browser, page: str, status: int = 200) -> Reply:
        """The reply that shows a page with a form."""
        cookie = [(b"set-cookie", browser.cookie)] if browser.cookie else []
        return html(page, status, [*FORM, *cookie])

    def read(self, exchange: Exchange, action: str, browser: Browser | None = None) -> dict[str, str]:
        """The fields of a form that was sent. `browser` is the one that it was given to, where the browser is known by
        something else than this cookie. Raises ForeignPage where the form is not one that this browser was given for
        this address, and MalformedRequest, BodyTooLarge or UnsupportedMediaType where the body is no form."""
        _refuse_foreign(exchange)
        fields = _fields(exchange)
        known = cookie_of(exchange) if browser is None else browser.id
        if known is None:
            raise ForeignPage("Your browser did not send this server's cookie; allow cookies, and open the link again")
        if not compare_digest(fields.pop(FIELD, "").encode(), self._sign(Browser(known), action).encode()):
            raise ForeignPage("This form was not made for your browser; open the link again")
        return fields

    def _sign(self, browser: Browser, action: str) -> str:
        signed = self._ring.sign(PURPOSE, f"{browser.id}\n{action}".encode())
        return base64url.encoded(signed)


def is_https(url: str) -> bool:
    return url.startswith("https:")


def cookie_name(url: str, plain: str = COOKIE) -> str:
    """The cookie's name. Over TLS it is one that browsers take from this very host alone, by its prefix."""
    return f"__Host-{plain}" if is_https(url) else plain


def cookie_of(exchange: Exchange, plain: str = COOKIE) -> str | None:
    """The id in the browser's cookie, if it sent one."""
    name = cookie_name(exchange.base_url(), plain)
    sent = exchange.headers.get(b"cookie", b"")
    if len(sent) > LARGEST_COOKIES or sent.count(b";") >= MOST_COOKIES:
        return None
    for each in sent.decode("latin-1").split(";"):
        given, _, value = each.strip().partition("=")
        if given == name and _id(value):
            return value
    return None


def _refuse_foreign(exchange: Exchange) -> None:
    """Raises ForeignPage unless the form was sent from a page of this server: every browser says so in `Origin`."""
    own = urlsplit(exchange.base_url())
    if exchange.headers.get(b"origin", b"").decode("latin-1") != f"{own.scheme}://{own.netloc}":
        raise ForeignPage("This form was sent from another page; open the link again")


def _fields(exchange: Exchange) -> dict[str, str]:
    if exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != MEDIA:
        raise UnsupportedMediaType("A form is expected", developer_message=f"content-type must be {MEDIA.decode()}")
    if len(exchange.body) > LARGEST:
        raise BodyTooLarge("The form is too large", developer_message=f"it may have at most {LARGEST} bytes")
    try:
        given = parameters(exchange.body.decode("ascii"))
    except ValueError:
        raise MalformedRequest("The form cannot be read") from None
    fields = dict(given)
    if len(fields) < len(given):
        raise MalformedRequest("The form says something twice, and nobody can tell which counts; open the link again")
    return fields
