"""The table of the console's pages, in the order of its navigation, and the parts that they are made from."""

from collections.abc import Callable

from msgspec import Struct

from ...catalogue import Catalogue
from ...engine.engine import Engine
from ...engine.worker_tools import WorkerTools
from ...store.contract import Store
from ...trust.sealing.ring import KeyRing
from ..approvals.decisions import AuditedApprovals
from ..http.routes import Route
from ..intake.readiness import Readiness
from ..intake.witness import Witness
from ..pages.forms import Forms
from ..settings.table import Settings
from .approvals import ApprovalsPage
from .calls import CallsPage
from .login import ConsoleLogin
from .login_sessions import Codes, LoginSessions, WrongCodes
from .overview import Overview
from .page import Section
from .routes import Console
from .tools import Tools


class ConsoleParts(Struct, frozen=True):
    """What the console's pages show and change. `is_open` says whether callers need no credentials."""

    store: Store
    ring: KeyRing
    catalogue: Catalogue
    engine: Engine
    workers: WorkerTools
    decisions: AuditedApprovals
    readiness: Readiness
    witness: Witness
    settings: Settings
    is_open: Callable[[], bool]


def sections(parts: ConsoleParts) -> list[Section]:
    """A new page is a line here."""
    store, settings = parts.store, parts.settings
    return [
        Overview(store, parts.catalogue, parts.decisions.approvals, parts.readiness),
        Tools(parts.catalogue, parts.engine, parts.workers, settings.access, settings.approvals, parts.is_open),
        CallsPage(store, parts.decisions.approvals),
        ApprovalsPage(store, parts.decisions),
    ]


def routes(parts: ConsoleParts, now: Callable[[], float]) -> list[Route]:
    store, ring, forms = parts.store, parts.ring, Forms(parts.ring)
    login = ConsoleLogin(forms, Codes(store, ring), LoginSessions(store, ring), WrongCodes(now), parts.witness)
    return Console(login, forms, parts.witness, sections(parts), now).routes()
