"""The console's first page: the server's health, how many tools and calls there are, which workers live, how upstreams
fare, and what waits for a person."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...catalogue import Catalogue
from ...engine.approvals import Approvals
from ...model.lifecycle import State
from ...model.worker import WorkerRecord
from ...store.contract import Store
from ...version import VERSION
from ..intake.readiness import Readiness
from ..pages.layout import shown
from .html import NOTHING, bullets, facts
from .page import Action, ConsolePage, PageContent, Visit

if TYPE_CHECKING:
    from ...upstream.upstreams import UpstreamReport

NEWEST = 10_000
"""Among how many of the newest calls those that have ended are counted: a ledger may have millions."""


class Overview:
    """Shows how the server is, and links to the pages that say more."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        approvals: Approvals,
        readiness: Readiness,
        upstreams: "Callable[[], Sequence[UpstreamReport]]",
    ) -> None:
        self._store, self._catalogue, self._approvals, self._readiness = store, catalogue, approvals, readiness
        self._upstreams = upstreams

    def pages(self) -> list[ConsolePage]:
        return [ConsolePage("", self.show, "Overview")]

    def actions(self) -> list[Action]:
        return []

    async def show(self, visit: Visit) -> PageContent:
        waiting, workers = await self._approvals.count(), await self._store.workers()
        rows = [
            ("Server", f"{shown(self._readiness.health)}, toolyard {VERSION}, node {shown(self._store.node)}"),
            ("Tools", visit.link("/tools", str(len(self._catalogue)))),
            ("Waiting for your yes", visit.link("/approvals", str(waiting)) if waiting else "nothing"),
            ("Workers alive", bullets(map(_worker, workers)) if workers else NOTHING),
        ]
        if upstreams := self._upstreams():
            rows.append(("Upstreams", bullets(map(_upstream, upstreams))))
        counted = await self._store.counted(NEWEST)
        calls = facts((state, visit.link(f"/calls?state={state}", f"{counted.get(state, 0):,}")) for state in State)
        said = f"<p>Of those that have ended, the ones among the newest {NEWEST:,} calls are counted.</p>"
        return PageContent("toolyard console", f"{facts(rows)}<h2>Calls</h2>{calls}{said}", live=True)


def _upstream(report: "UpstreamReport") -> str:
    withheld = f", {len(report.withheld)} withheld" if report.withheld else ""
    trouble = f": {report.figures.trouble}" if report.figures.trouble else ""
    tools = f"{report.tools} tool{'' if report.tools == 1 else 's'}"
    return shown(f"{report.name}: {report.figures.state}, {tools}{withheld}{trouble}")


def _worker(worker: WorkerRecord) -> str:
    return f"{shown(worker.name)} of {shown(worker.subject)} ({shown(worker.tenant)})"
