"""The routes of the console's pages and buttons.

Each looks for the browser's session first; without one, the reply does not depend on what was asked for. Whatever a
button changes is in the audit log.
"""

from collections.abc import Callable, Sequence
from html import escape
from urllib.parse import urlencode

from ...model.errors import InvalidInput, PathNotFound, RequestError
from ...trust.audit.entry import AuditKind
from ...wires.contract import Reply
from ...wires.oxp import oxp
from ..http import query
from ..http.exchange import Exchange
from ..http.routes import Handler, Route
from ..intake.witness import Witness
from ..pages.forms import Browser, Forms
from ..pages.layout import FORM, alert, html, page
from .login import ENTER, LEAVE, ConsoleLogin
from .page import ROOT, Action, ConsolePage, PageContent, Section, Visit

LIVE = "live"
"""The query parameter by which a page reloads itself."""
EVERY_S = 5


class Console:
    """Puts pages into the console's frame: the navigation above, a button to sign out below."""

    def __init__(
        self, login: ConsoleLogin, forms: Forms, witness: Witness, sections: Sequence[Section], now: Callable[[], float]
    ) -> None:
        self._login, self._forms, self._witness, self._now = login, forms, witness, now
        self._pages = [each for section in sections for each in section.pages()]
        self._actions = [each for section in sections for each in section.actions()]

    def routes(self) -> list[Route]:
        """Anyone may ask, but only a browser with a session gets more than the login page."""
        login = self._login
        return [
            Route("GET", ENTER, login.show, oxp.FLAT, who="anyone"),
            Route("POST", ENTER, login.enter, oxp.FLAT, reads_form=True, who="anyone"),
            Route("POST", LEAVE, login.leave, oxp.FLAT, reads_form=True, who="anyone"),
            *(Route("GET", ROOT + each.path, self._showing(each), oxp.FLAT, who="anyone") for each in self._pages),
            *(
                Route("POST", ROOT + each.path, self._doing(each), oxp.FLAT, reads_form=True, who="anyone")
                for each in self._actions
            ),
        ]

    def _showing(self, shown: ConsolePage) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            session = await self._login.session_of(exchange)
            if session is None:
                return self._login.turn_away(exchange)
            visit = Visit(exchange, session, self._forms, self._now())
            try:
                return self._reply(visit, await shown.show(visit))
            except RequestError as error:
                return self._refused(visit, error, "This cannot be shown")

        return handle

    def _doing(self, action: Action) -> Handler:
        async def handle(exchange: Exchange) -> Reply:
            session = await self._login.session_of(exchange)
            if session is None:
                return self._login.turn_away(exchange)
            visit = Visit(exchange, session, self._forms, self._now())
            try:
                fields = self._forms.read(exchange, exchange.base_url() + exchange.path, Browser(session))
                done = await action.do(visit, fields)
            except RequestError as error:
                return self._refused(visit, error, "Nothing was changed")
            if done.what:
                self._witness.did(AuditKind.ADMIN, f"console: {done.what}", None, exchange.address)
            await self._witness.written()
            return Reply(303, b"", [(b"location", visit.url(done.to).encode()), (b"cache-control", b"no-store")])

        return handle

    def _refused(self, visit: Visit, error: RequestError, title: str) -> Reply:
        problems = error.problems if isinstance(error, InvalidInput) else ()
        said = "; ".join([error.message, *(f"{problem.path}: {problem.sentence}" for problem in problems)])
        status = 410 if isinstance(error, PathNotFound) else 400 if problems else 403
        return self._reply(visit, PageContent(title, alert(said)), status)

    def _reply(self, visit: Visit, view: PageContent, status: int = 200) -> Reply:
        is_live, toggle = _live(visit, view)
        head = f"<meta http-equiv='refresh' content='{EVERY_S}'>" if is_live else ""
        body = self._navigation(visit) + toggle + view.body + visit.form("/leave", "", "Sign out")
        return html(page(view.title, body, visit.exchange.base_url(), head), status, FORM)

    def _navigation(self, visit: Visit) -> str:
        here = visit.exchange.path.removeprefix(ROOT)
        items = ""
        for each in self._pages:
            if each.name:
                current = " aria-current='page'" if each.path == here else ""
                items += f"<li><a href='{escape(visit.url(each.path))}'{current}>{escape(each.name)}</a></li>"
        return f"<nav aria-label='Console'><ul>{items}</ul></nav>"


def _live(visit: Visit, view: PageContent) -> tuple[bool, str]:
    """Whether the page reloads itself, and the link by which its reader changes that."""
    if not view.live:
        return False, ""
    given = {name: value for name, value in query.pairs(visit.exchange.query) if value}
    is_live = given.pop(LIVE, "") == "yes"
    wanted = urlencode(given if is_live else {**given, LIVE: "yes"})
    text = "Stop loading this page anew" if is_live else f"Load this page anew every {EVERY_S} seconds"
    here = visit.exchange.base_url() + visit.exchange.path
    return is_live, f"<p><a href='{escape(here)}?{escape(wanted)}'>{text}</a></p>"
