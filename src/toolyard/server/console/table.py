"""The table of the console's pages, in the order of its navigation, and the parts that they stand on."""

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
from .login import Door
from .login_sessions import Codes, LoginSessions, Tries
from .overview import Overview
from .page import Section
from .routes import Console
from .tools import Tools


class ConsoleParts(Struct, frozen=True):
    """`is_open`: whether callers are let in without credentials."""

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


def sections(ground: ConsoleParts) -> list[Section]:
    """A new page is a line here."""
    store, settings = ground.store, ground.settings
    return [
        Overview(store, ground.catalogue, ground.decisions.approvals, ground.readiness),
        Tools(ground.catalogue, ground.engine, ground.workers, settings.access, settings.approvals, ground.is_open),
        CallsPage(store, ground.decisions.approvals),
        ApprovalsPage(store, ground.decisions),
    ]


def routes(ground: ConsoleParts, now: Callable[[], float]) -> list[Route]:
    store, ring, forms = ground.store, ground.ring, Forms(ground.ring)
    door = Door(forms, Codes(store, ring), LoginSessions(store, ring), Tries(now), ground.witness)
    return Console(door, forms, ground.witness, sections(ground), now).routes()
