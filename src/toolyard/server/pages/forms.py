"""Forms: which browser it is, that a form which comes back is one that this browser was given, and what is in it.

A browser is known by a cookie that says nothing of anybody. Each form carries a signature over that cookie and the path
it is sent to; what another page makes a browser send has neither that nor this server's `Origin`.
"""

import re
import secrets
from hmac import compare_digest
from html import escape
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from ...model.errors import BodyTooLarge, ForeignPage, MalformedRequest, UnsupportedMediaType
from ...text import base64url
from ...trust.sealing.ring import KeyRing
from ...wires.contract import Reply
from ..http.exchange import Exchange
from .layout import FORM, html

PURPOSE = "form"
FIELD = "form"
"""The name of the signature's field."""
MEDIA = b"application/x-www-form-urlencoded"
LARGEST = 64 * 2**10
MOST_FIELDS = 100
COOKIE = "toolyard"
_id = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch


class Browser(Struct, frozen=True):
    """`id` nobody else knows; `cookie` is its header, where the browser does not have it yet."""

    id: str
    cookie: bytes = b""


class Forms:
    """Gives out forms and takes them back."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring

    def browser(self, exchange: Exchange) -> Browser:
        """The one that sent this. One that is new here gets its cookie with the reply (`reply`)."""
        known = cookie_of(exchange)
        if known is not None:
            return Browser(known)
        id = secrets.token_urlsafe(32)
        secure = "; Secure" if is_https(exchange.base_url()) else ""
        return Browser(id, f"{cookie_name(exchange.base_url())}={id}; Path=/; HttpOnly; SameSite=Lax{secure}".encode())

    def form(self, browser: Browser, action: str, fields: str, button: str = "") -> str:
        """As HTML. `action` is where it goes, an address of this server; `fields` is HTML, and has the buttons where
        none is named."""
        submit = f"<button type='submit'>{escape(button)}</button>" if button else ""
        return (
            f"<form method='post' action='{escape(action)}' autocomplete='off'>"
            f"<input type='hidden' name='{FIELD}' value='{self._sign(browser, action)}'>{fields}"
            f"{submit}</form>"
        )

    def reply(self, browser: Browser, page: str, status: int = 200) -> Reply:
        """A page with a form."""
        cookie = [(b"set-cookie", browser.cookie)] if browser.cookie else []
        return html(page, status, [*FORM, *cookie])

    def read(self, exchange: Exchange, action: str, browser: Browser | None = None) -> dict[str, str]:
        """What somebody filled in. `browser` is the one it was given to, where that is known by something else than
        its cookie. Raises ForeignPage where the form is not one that this browser was given for this address, and
        MalformedRequest or its like where it is no form."""
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
    """Over TLS a name that only this very host can set, and only there."""
    return f"__Host-{plain}" if is_https(url) else plain


def cookie_of(exchange: Exchange, plain: str = COOKIE) -> str | None:
    """The browser's id, if it has one."""
    name = cookie_name(exchange.base_url(), plain)
    for each in exchange.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        given, _, value = each.strip().partition("=")
        if given == name and _id(value):
            return value
    return None


def _refuse_foreign(exchange: Exchange) -> None:
    """Every browser says where a form that is sent comes from."""
    own = urlsplit(exchange.base_url())
    if exchange.headers.get(b"origin", b"").decode("latin-1") != f"{own.scheme}://{own.netloc}":
        raise ForeignPage("This form was sent from another page; open the link again")


def _fields(exchange: Exchange) -> dict[str, str]:
    if exchange.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != MEDIA:
        raise UnsupportedMediaType("A form is expected", developer_message=f"content-type must be {MEDIA.decode()}")
    if len(exchange.body) > LARGEST:
        raise BodyTooLarge("The form is too large", developer_message=f"it may have at most {LARGEST} bytes")
    try:
        given = parse_qsl(exchange.body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise MalformedRequest("The form cannot be read") from None
    fields = dict(given)
    if len(fields) < len(given):
        raise MalformedRequest("The form says something twice, and nobody can tell which counts; open the link again")
    return fields
