"""What a page of the console gets and gives, and the rows that pages and buttons are."""

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Protocol

from msgspec import Struct

from ...model.errors import PathNotFound
from ..http.exchange import Exchange
from ..pages.forms import Browser, Forms
from .html import shown

ROOT = "/console"


class Visit(Struct, frozen=True):
    """By an operator: the browser's session is good."""

    exchange: Exchange
    session: str
    forms: Forms
    now: float

    def url(self, path: str = "") -> str:
        """Of a page of the console, whatever the server is mounted in."""
        return f"{self.exchange.base_url()}{ROOT}{path}"

    def link(self, path: str, text: str) -> str:
        """HTML; the text is text."""
        return f"<a href='{escape(self.url(path))}'>{shown(text)}</a>"

    def form(self, path: str, fields: str, button: str) -> str:
        """A form that only this session can send."""
        return self.forms.form(Browser(self.session), self.url(path), fields, button)

    def number(self) -> int:
        """Of the call that the address names. Raises PathNotFound for what is no number of a call."""
        given = self.exchange.parameters["number"]
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise PathNotFound("There is no such call; it may have been removed")
        return int(given)


class PageContent(Struct, frozen=True):
    """A page: its title is text, its body HTML. A live one can be had with what is new every few seconds."""

    title: str
    body: str
    live: bool = False


class Done(Struct, frozen=True):
    """What was changed, where it is not in the audit log yet, and the page to go to then."""

    what: str
    to: str


class ConsolePage(Struct, frozen=True):
    """`path` begins after `/console` and may have variables. A page with a name is in the navigation."""

    path: str
    show: Callable[[Visit], Awaitable[PageContent]]
    name: str = ""


class Action(Struct, frozen=True):
    """What a form at `path` does with its fields. Refusals are RequestErrors."""

    path: str
    do: Callable[[Visit, Mapping[str, str]], Awaitable[Done]]


class Section(Protocol):
    """Pages about one thing."""

    def pages(self) -> list[ConsolePage]: ...

    def actions(self) -> list[Action]: ...
