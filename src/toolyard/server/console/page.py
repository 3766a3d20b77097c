"""What a page of the console is: its row in the table, the visit that it is given, and the content that it returns."""

from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import Protocol

from msgspec import Struct

from ...model.errors import PathNotFound
from ..http.exchange import Exchange
from ..pages.forms import Browser, Forms
from ..pages.layout import shown

ROOT = "/console"


class Visit(Struct, frozen=True):
    """A request of an operator for a page of the console: the browser's session has been checked."""

    exchange: Exchange
    session: str
    forms: Forms
    now: float

    def url(self, path: str = "") -> str:
        """The address of a page of the console, also where the server is mounted below a path."""
        return f"{self.exchange.base_url()}{ROOT}{path}"

    def link(self, path: str, text: str) -> str:
        """A link to a page of the console, as HTML. `text` is text."""
        return f"<a href='{escape(self.url(path))}'>{shown(text)}</a>"

    def form(self, path: str, fields: str, button: str) -> str:
        """A form with a button, as HTML, which only this session can send. `fields` is HTML."""
        return self.forms.form(Browser(self.session), self.url(path), fields, button)

    def number(self) -> int:
        """The number of the call that the path names. Raises PathNotFound for what cannot be one."""
        given = self.exchange.parameters["number"]
        if not (given.isascii() and given.isdigit() and len(given) < 19):
            raise PathNotFound("There is no such call; it may have been removed")
        return int(given)


class PageContent(Struct, frozen=True):
    """What a page shows: its title is text, its body HTML. A live page offers to reload itself every few seconds."""

    title: str
    body: str
    live: bool = False


class Done(Struct, frozen=True):
    """What an action did: `what` goes to the audit log, and is empty where an entry is there already; `to` is the page
    that the browser is sent to next."""

    what: str
    to: str


class ConsolePage(Struct, frozen=True):
    """A page's row: what is shown at `path`, which begins after `/console` and may have variables. A page with a name
    is in the navigation."""

    path: str
    show: Callable[[Visit], Awaitable[PageContent]]
    name: str = ""


class Action(Struct, frozen=True):
    """A button's row: what a form that is sent to `path` does with its fields. An action that refuses raises a
    RequestError."""

    path: str
    do: Callable[[Visit, Mapping[str, str]], Awaitable[Done]]


class Section(Protocol):
    """The pages and buttons about one subject."""

    def pages(self) -> list[ConsolePage]: ...

    def actions(self) -> list[Action]: ...
