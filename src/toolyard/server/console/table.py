"""The table of the console's pages, in the order of its navigation, and the parts that they stand on."""

from collections.abc import Callable

from msgspec import Struct

from ...catalogue import Catalogue
from ...engine.workers import WorkerTools
from ...store.contract import Store
from ...trust.keys import KeyRing
from ..decisions import Decisions
from ..pages.forms import Forms
from ..readiness import Readiness
from ..routes import Route
from ..settings import Settings
from ..witness import Witness
from .approvals import Approvals
from .calls import Calls
from .console import Console
from .entering import Door
from .overview import Overview
from .sessions import Codes, Sessions, Tries
from .tools import Tools
from .visits import Section


class Ground(Struct, frozen=True):
    """`is_open`: whether callers are let in without credentials."""

    store: Store
    ring: KeyRing
    catalogue: Catalogue
    workers: WorkerTools
    decisions: Decisions
    readiness: Readiness
    witness: Witness
    settings: Settings
    is_open: Callable[[], bool]


def sections(ground: Ground) -> list[Section]:
    """A new page is a line here."""
    store, settings = ground.store, ground.settings
    return [
        Overview(store, ground.catalogue, ground.decisions.desk, ground.readiness),
        Tools(ground.catalogue, ground.workers, settings.access, settings.approvals, ground.is_open),
        Calls(store, ground.decisions.desk),
        Approvals(store, ground.decisions),
    ]


def routes(ground: Ground, now: Callable[[], float]) -> list[Route]:
    store, ring, forms = ground.store, ground.ring, Forms(ground.ring)
    door = Door(forms, Codes(store, ring), Sessions(store, ring), Tries(now), ground.witness)
    return Console(door, forms, ground.witness, sections(ground), now).routes()
