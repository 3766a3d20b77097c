"""The console's page of tools: what each is, where it runs, what it needs, who may call it, and which of its calls wait
for approval."""

from collections.abc import Callable, Sequence
from html import escape

from ...catalogue import Catalogue
from ...engine.engine import Engine
from ...engine.worker_tools import WorkerTools
from ...model.tool import Tool
from ...trust.access.access import Rule
from ...trust.approvals.rules import ApprovalRule
from ..http import query
from ..pages.layout import code, shown
from .html import NOTHING, bullets, facts
from .page import Action, ConsolePage, PageContent, Visit
from .rules_in_words import approvals_of, exposed_to

MOST = 200
"""How many tools the page shows; a search finds the others."""


class Tools:
    """Shows the tools of the catalogue, with the rules about them in words. `is_open` says whether callers need no
    credentials."""

    def __init__(
        self,
        catalogue: Catalogue,
        engine: Engine,
        workers: WorkerTools,
        access: Callable[[], Sequence[Rule]],
        approvals: Sequence[ApprovalRule],
        is_open: Callable[[], bool],
    ) -> None:
        self._catalogue, self._engine, self._workers = catalogue, engine, workers
        self._access, self._approvals, self._is_open = access, approvals, is_open

    def pages(self) -> list[ConsolePage]:
        return [ConsolePage("/tools", self.show, "Tools")]

    def actions(self) -> list[Action]:
        return []

    async def show(self, visit: Visit) -> PageContent:
        wanted = query.text(visit.exchange, "name") or ""
        found = [tool for tool in self._catalogue.all() if wanted.lower() in tool.reference.lower()]
        body = _search(visit, wanted)
        body += f"<p>{'Callers need no credentials.' if self._is_open() else 'Callers need credentials.'}"
        body += " <code>toolyard explain</code> says it of one caller and one tool.</p>"
        if len(found) > MOST:
            body += f"<p class='note'>The first {MOST} of {len(found)}; look for a part of a name to see others.</p>"
        return PageContent("Tools", body + ("".join(map(self._tool, found[:MOST])) or "<p>There is none.</p>"))

    def _tool(self, tool: Tool) -> str:
        title = f" <small>{shown(tool.title)}</small>" if tool.title else ""
        waits = approvals_of(tool, self._approvals)
        rows = [
            ("Version", shown(tool.version)),
            ("Description", shown(tool.description) or NOTHING),
            ("Listed as", code(tool.wire_name)),
            ("Runs", self._place(tool)),
            ("Hints", shown(tool.hints_in_words() or NOTHING)),
            ("Needs", shown(_needs(tool))),
            ("Approval", bullets(map(shown, waits)) if waits else "no call of it waits for a person"),
            ("Exposed to", bullets(map(shown, exposed_to(tool, self._access())))),
        ]
        return f"<h2 id='{escape(tool.reference)}'>{code(tool.id)}{title}</h2>{facts(rows)}"

    def _place(self, tool: Tool) -> str:
        at = [f"worker {name} of {subject} ({tenant})" for tenant, subject, name in self._workers.at(tool.reference)]
        return bullets(map(shown, at)) if at else shown(self._engine.plans.place_of(tool))


def _search(visit: Visit, wanted: str) -> str:
    return (
        f"<form method='get' action='{escape(visit.url('/tools'))}'><label for='name'>Part of a name</label>"
        f"<input id='name' name='name' type='text' maxlength='200' value='{shown(wanted)}'> "
        "<button type='submit'>Look</button></form>"
    )


def _needs(tool: Tool) -> str:
    requirements = tool.requirements
    needs = [
        f"an account at {each.id}" + (f" for {', '.join(each.scopes)}" if each.scopes else "")
        for each in requirements.authorization
    ]
    needs += [f"the secret {name}" for name in requirements.secrets]
    needs += ["a user id"] if requirements.user_id else []
    if needs and not tool.gets_what_is_kept:
        needs.append("all of which a call must bring: its worker is not trusted, and given nothing that is kept here")
    return ", ".join(needs) or NOTHING
