"""The table of the console's pages, in the order of its navigation. It is loaded when somebody opens the console."""

from collections.abc import Callable

from ..http.routes import Route
from ..pages.forms import Forms
from .approvals import ApprovalsPage
from .calls import CallsPage
from .login import ConsoleLogin
from .login_sessions import Codes, LoginSessions, WrongCodes
from .overview import Overview
from .page import Section
from .parts import ConsoleParts
from .routes import Console
from .tools import Tools


def sections(parts: ConsoleParts) -> list[Section]:
    """A new page is a line here."""
    store = parts.store
    return [
        Overview(store, parts.catalogue, parts.decisions.approvals, parts.readiness, parts.upstreams),
        Tools(parts.catalogue, parts.engine, parts.workers, parts.access, parts.approval_rules, parts.is_open),
        CallsPage(store, parts.decisions.approvals),
        ApprovalsPage(store, parts.decisions),
    ]


def routes(parts: ConsoleParts, now: Callable[[], float]) -> list[Route]:
    store, ring, forms = parts.store, parts.ring, Forms(parts.ring)
    login = ConsoleLogin(forms, Codes(store, ring), LoginSessions(store, ring), WrongCodes(now), parts.witness)
    return Console(login, forms, parts.witness, sections(parts), now).routes()
