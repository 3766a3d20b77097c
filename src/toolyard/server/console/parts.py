"""The parts of a server that the console's pages are made from."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ...catalogue import Catalogue
from ...engine.engine import Engine
from ...engine.worker_tools import WorkerTools
from ...store.contract import Store
from ...trust.access.access import Rule
from ...trust.approvals.rules import ApprovalRule
from ...trust.sealing.ring import KeyRing
from ..approvals.decisions import AuditedApprovals
from ..intake.readiness import Readiness
from ..intake.witness import Witness

if TYPE_CHECKING:
    from ...upstream.upstreams import UpstreamReport


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
    access: Callable[[], Sequence[Rule]]
    """The rules, which change while the server runs."""
    approval_rules: Sequence[ApprovalRule]
    is_open: Callable[[], bool]
    upstreams: Callable[[], "Sequence[UpstreamReport]"]
    """How each of them fares."""
