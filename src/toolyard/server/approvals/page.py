"""The page on which a person approves or rejects a call, and the address at which a client asks whether one has.

The caller is given the page's address and passes it on. The address alone shows what the call is about, for as long as
the call goes on; to decide, a person has to know the call's code, which an operator gives them. So nobody approves
their own call by its address. Once the call has ended the address shows nothing of it: it may be in a chat, a mailbox
or a browser's history. Who has credentials asks for the call itself.
"""

from collections.abc import Callable

from ...catalogue import Catalogue
from ...model.errors import PathNotFound, Refused, RequestError, ToolNotFound
from ...model.lifecycle import CODES, ENDED, Move, State, WaitingFor
from ...model.record import CallRecord
from ...trust.sealing.ring import KeyRing
from ...wires.contract import JSON, Reply
from ...wires.errors import encode
from ...wires.lifecycle.approvals import MOST_REASON
from ...wires.oxp import oxp
from ..http.exchange import Exchange
from ..http.routes import Handler
from ..pages.forms import Browser, Forms
from ..pages.layout import age, alert, code, json_text, page, paragraph, table
from ..pages.page_routes import Address
from .decisions import WITH_CODE, AuditedApprovals, Decider, about
from .routes import PAGE, STATUS

TOO_MANY = "Too many wrong codes. Ask an operator to decide, with toolyard approve or in the console"
NOT_WAITING = "Nothing was decided: this call does not wait for it"
TITLE = "Approve a call?"
FIELDS = (
    "<label for='code'>Code (an operator sees it with <code>toolyard approvals</code>)</label>"
    "<input id='code' name='code' type='text' required maxlength='20'>"
    f"<label for='reason'>Reason, if you say no</label><input id='reason' name='reason' type='text' "
    f"maxlength='{MOST_REASON}'>"
    "<p><button type='submit' name='say' value='no'>Reject</button>"
    "<button type='submit' name='say' value='yes'>Approve</button></p>"
)
"""The Enter key presses the first button, so nobody says yes by accident."""


class ApprovalPages:
    """The handlers of an approval's page, of its form and of its status."""

    def __init__(
        self, decisions: AuditedApprovals, ring: KeyRing, catalogue: Catalogue, now: Callable[[], float]
    ) -> None:
        self._decisions, self._approvals, self._forms = decisions, decisions.approvals, Forms(ring)
        self._catalogue, self._now = catalogue, now

    def handlers(self) -> dict[Address, Handler]:
        return {("GET", PAGE): self.show, ("POST", PAGE): self.decide, ("GET", STATUS): self.status}

    async def status(self, exchange: Exchange) -> Reply:
        said = {"status": await self._approvals.status(exchange.parameters["id"])}
        return Reply(200, encode(said), [JSON, oxp.VERSION, (b"cache-control", b"no-store")])

    async def show(self, exchange: Exchange) -> Reply:
        browser = self._forms.browser(exchange)
        try:
            call = await self._approvals.find(exchange.parameters["id"])
        except PathNotFound as error:
            return self._forms.reply(browser, self._page(exchange, "No such approval", alert(error.message)), 410)
        if call.state in ENDED:
            return self._ended(exchange, browser)
        return await self._shown(exchange, browser, call)

    async def decide(self, exchange: Exchange) -> Reply:
        browser = self._forms.browser(exchange)
        try:
            call = await self._approvals.find(exchange.parameters["id"])
            fields = self._forms.read(exchange, _address(exchange))
        except RequestError as error:
            return self._forms.reply(browser, self._page(exchange, "Nothing was decided", alert(error.message)), 403)
        if call.state in ENDED:
            return self._ended(exchange, browser, NOT_WAITING)
        if call.waiting_for != WaitingFor.APPROVAL:
            # Its code is good for nothing any more, and nobody is told whether it was right.
            return await self._shown(exchange, browser, call, NOT_WAITING)
        if await self._approvals.is_closed(call):
            return await self._shown(exchange, browser, call, TOO_MANY)
        approved, reason = fields.get("say") == "yes", fields.get("reason", "")[:MOST_REASON]
        if not await self._approvals.is_code(fields.get("code", ""), call):
            anybody = Decider("a person without its code", exchange.address)
            await self._decisions.refused(anybody, approved, "a wrong code", **about(call))
            return await self._shown(exchange, browser, call, "This is not the code of this call. Nothing was decided")
        if fields.get("say") not in ("yes", "no"):
            return await self._shown(exchange, browser, call, "Say yes or no: press one of the buttons")
        by = Decider(WITH_CODE, exchange.address)
        try:
            await self._decisions.decide(call, by, approved=approved, reason=reason)
        except Refused as error:
            return await self._shown(exchange, browser, call, error.message)
        return await self._shown(exchange, browser, await self._approvals.find(exchange.parameters["id"]))

    def _ended(self, exchange: Exchange, browser: Browser, wrong: str = "") -> Reply:
        body = (alert(wrong) if wrong else "") + paragraph("This call has ended, and its link shows nothing of it.")
        return self._forms.reply(browser, self._page(exchange, TITLE, body), 403 if wrong else 200)

    async def _shown(self, exchange: Exchange, browser: Browser, call: CallRecord, wrong: str = "") -> Reply:
        who = f"{call.key.subject} ({call.key.tenant})"
        rows = [("Tool", call.reference), *self._about(call), ("Who asks", who), ("On behalf of", call.user_id)]
        rows += [("Call", call.key.call_id), ("Asked", f"{age(self._now() - call.created_at)} ago")]
        where = (
            f"An operator sees all of it in the console, or with <code>toolyard show</code> {code(call.key.call_id)}"
        )
        body = table(row for row in rows if row[1]) + f"<h2>Input</h2>{json_text(call.input or b'{}', where)}"
        if call.waiting_for == WaitingFor.APPROVAL and await self._approvals.is_closed(call):
            wrong = TOO_MANY
            body += alert(wrong)
        elif call.waiting_for == WaitingFor.APPROVAL:
            form = self._forms.form(browser, _address(exchange), FIELDS)
            body += (alert(wrong) if wrong else "") + form
        else:
            body += (alert(wrong) if wrong else "") + paragraph(await self._what_became(call))
        return self._forms.reply(browser, self._page(exchange, TITLE, body), 403 if wrong else 200)

    def _about(self, call: CallRecord) -> list[tuple[str, str]]:
        """What the tool says of itself, if it is still there."""
        try:
            tool = self._catalogue.resolve(call.reference)
        except ToolNotFound:
            return [("What it does", "The tool is not there any more, so the call cannot run")]
        if not call.is_of(tool):
            return [("What it does", "Another tool has its name now, and does not get the call")]
        return [("What it does", tool.description), ("Hints", tool.hints_in_words())]

    async def _what_became(self, call: CallRecord) -> str:
        """How it was decided, and where the call stands now."""
        said = await self._approvals.decision(call)
        if said is None:
            return f"Nobody has to agree to this call any more. {_standing(call)}"
        if not said["approved"]:
            because = f" Reason: {said['reason']}" if said["reason"] else ""
            return f"It was rejected by {said['by']}. Nothing was done, and whoever asked is told so.{because}"
        return f"It was approved by {said['by']}. {_standing(call)}"

    def _page(self, exchange: Exchange, title: str, body: str) -> str:
        return page(title, body, exchange.base_url())


def _address(exchange: Exchange) -> str:
    """The page's own address, whole: below the path that the server is mounted at, if it is."""
    return exchange.base_url() + exchange.path


def _standing(call: CallRecord) -> str:
    """Where the call stands and what happens next, for somebody who does not know a call's states."""
    if call.state is State.COMPLETE:
        return "The tool has run, and whoever asked gets its result."
    if call.state is State.ERROR and call.attempt == 0:
        return f"The call ended before the tool ran ({call.code}). Nothing was done."
    if call.code == CODES[Move.UNKNOWN]:
        return "Whether the tool has done it is not known. Whoever asked is told so, and an operator can settle it."
    if call.state is State.ERROR:
        return f"The tool was started, and the call ended as {call.code}. Whoever asked is told so."
    if call.waiting_for == WaitingFor.AUTHORIZATION:
        return "The tool runs as soon as the user's account is connected, which whoever asked is told."
    if call.state is State.PENDING and call.queue == "worker":
        return "The tool runs as soon as a worker takes the call up. There is nothing more to do here."
    if call.state is State.PENDING:
        return "The tool runs next, and whoever asked gets its result. There is nothing more to do here."
    return "The tool is running, and whoever asked gets its result. There is nothing more to do here."
