"""The handlers of OXP 1.0, OTC 1.0 and the OTC draft: call, list, health; and their routes, a row each.

These protocols differ in words alone, so they share their handlers: which one is spoken is found in the path or the
body (`wires/oxp/negotiation.py`), and the wire that is found decodes and encodes. A call goes through the intake.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ...engine.engine import Engine
from ...model.call import CallTool, Outcome
from ...model.channel import QuietChannel
from ...model.errors import ToolyardError
from ...model.tool import Tool
from ...wires.contract import OxpFamilyWire, Reply
from ...wires.model_text import ModelText
from ...wires.oxp import negotiation, otc, otc_draft, oxp
from ...wires.oxp.negotiation import Choose, check_version, decode_call, decode_list, guess_wire
from ..http.exchange import Exchange
from ..http.reply_budget import ReplyBudget
from ..http.routes import Handler, Route
from ..http.trace_context import trace_of
from ..intake.intake import Intake
from ..intake.readiness import Readiness
from .listing import Listing


class OxpCall(QuietChannel):
    """One call of this family: what the intake is handed (a `WireCall`), and the call's channel to its client, who
    waits for one reply. That can be given early, and the client can go away; nothing else reaches it. Both are one
    object, because each call makes one."""

    __slots__ = ("_handlers", "_traceparent", "_wire", "caller", "command", "origin")

    def __init__(self, command: CallTool, origin: Exchange, wire: OxpFamilyWire, handlers: "OxpHandlers") -> None:
        self.cancelled = False
        self.command, self.caller, self.origin = command, origin.caller, origin
        self._wire, self._handlers = wire, handlers
        self._traceparent: bytes | None = None
        command.wire, command.family = wire.name, wire.family
        if b"traceparent" in origin.headers and (trace := trace_of(origin.headers)) is not None:
            trace_id, self._traceparent = trace
            if command.trace_id is None:
                command.trace_id = trace_id

    # -- for the intake ----------------------------------------------------------------------------

    def resolve(self, engine: Engine) -> Tool:
        return engine.resolve(self.command.tool_id, self.caller, latest=self.command.latest)

    def run(self, engine: Engine, tool: Tool) -> Coroutine[Any, Any, Outcome]:
        return engine.call(tool, self.command, self.caller, self, self.origin.base_url)

    def encode(self, tool: Tool | None, outcome: Outcome) -> Reply | Coroutine[Any, Any, Reply]:
        is_recorded = self.command.call_id is not None
        if is_recorded and not self._handlers.replies.may_keep(self.origin, outcome.size):
            return self._encode_later()
        return self._encoded(outcome)

    async def _encode_later(self) -> Reply:
        """In its turn, once the client has read enough. The ledger has the result: it is not kept meanwhile."""
        await self._handlers.replies.read(self.origin)
        return self._encoded(await self._handlers.intake.again(self))

    def _encoded(self, outcome: Outcome) -> Reply:
        if outcome.error is not None:
            outcome = self._handlers.telling.outcome(outcome)
        reply = self._wire.encode_outcome(outcome)
        return reply if self._traceparent is None else self._traced(reply, self._traceparent)

    def encode_error(self, tool: Tool | None, error: ToolyardError) -> Reply:
        reply = self._wire.encode_error(self._handlers.telling.error(error), self.command)
        return reply if self._traceparent is None else self._traced(reply, self._traceparent)

    def _traced(self, reply: Reply, traceparent: bytes) -> Reply:
        reply.headers = [*reply.headers, (b"traceparent", traceparent)]
        return reply

    # -- for the call that runs --------------------------------------------------------------------

    def answer(self, outcome: Outcome) -> None:
        self._handlers.intake.tell_early(self, outcome.call_id, lambda: self._answer(outcome))

    def _answer(self, outcome: Outcome) -> None:
        self.origin.answer(self._wire.encode_outcome(outcome))

    def when_answered(self, callback: Callable[[], None]) -> None:
        self.origin.at_end.append(callback)

    def when_gone(self, callback: Callable[[], None]) -> None:
        self.origin.when_gone(callback)

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self.origin.when_expired(callback)


class OxpHandlers:
    """The handlers that OXP and OTC share: each finds out which protocol is spoken, decodes, hands over, and has the
    wire encode."""

    def __init__(
        self, intake: Intake, listing: Listing, readiness: Readiness, telling: ModelText, replies: ReplyBudget
    ) -> None:
        self.intake, self.telling, self.replies = intake, telling, replies
        self._listing, self._readiness = listing, readiness

    def call(self, choose: Choose, *, versioned: bool) -> Handler:
        """`POST …/call`. `choose` finds the wire; `versioned` paths look at `OXP-Version`."""
        take = self.intake.call

        def handle(exchange: Exchange) -> Awaitable[Reply]:
            """No coroutine of its own around the intake's: it would cost as much as the decoding."""
            if versioned and b"oxp-version" in exchange.headers:
                check_version(exchange.headers[b"oxp-version"])
            wire, command = decode_call(exchange.body, choose)
            if isinstance(command, CallTool):
                return take(OxpCall(command, exchange, wire, self))
            return _given(wire.encode_error(command))

        return handle

    def list(self, default: OxpFamilyWire, *, fixed: bool) -> Handler:
        """`GET …/tools`. Below a prefix the wire is `fixed`."""

        async def handle(exchange: Exchange) -> Reply:
            if (not fixed or default.name == "oxp") and b"oxp-version" in exchange.headers:
                check_version(exchange.headers[b"oxp-version"])
            wire, command = decode_list(exchange.query, exchange.body, default, fixed=fixed)
            if isinstance(command, ToolyardError):
                return wire.encode_error(command)
            return self._listing.reply(wire, command, exchange.headers.get(b"if-none-match"), exchange.caller.view)

        return handle

    def health(self, wire: OxpFamilyWire) -> Handler:
        """`GET …/health`."""

        async def handle(exchange: Exchange) -> Reply:
            return wire.encode_status(self._readiness.health)

        return handle


async def _given(reply: Reply) -> Reply:
    """What is known already, for whoever awaits it."""
    return reply


def routes(desk: OxpHandlers) -> list[Route]:
    """At the root the body decides which protocol is spoken; below a prefix, the prefix does."""
    return [
        _call(desk, "/tools/call", negotiation.root, oxp.FLAT),
        _call(desk, "/call", negotiation.root_call, oxp.FLAT),
        _list(desk, "/tools", oxp.FLAT, fixed=False),
        _health(desk, "/health", oxp.FLAT),
        *_below("/oxp", desk, oxp.FLAT, negotiation.only_oxp),
        *_below("/otc", desk, otc.OTC, negotiation.only_otc),
        *_below("/otc/draft", desk, otc_draft.DRAFT, negotiation.only_draft),
    ]


def _below(prefix: str, desk: OxpHandlers, wire: OxpFamilyWire, choose: negotiation.Choose) -> list[Route]:
    return [
        _call(desk, f"{prefix}/tools/call", choose, wire),
        _call(desk, f"{prefix}/call", choose, wire),
        _list(desk, f"{prefix}/tools", wire, fixed=True),
        _health(desk, f"{prefix}/health", wire),
    ]


def _call(desk: OxpHandlers, path: str, choose: negotiation.Choose, wire: OxpFamilyWire) -> Route:
    handler = desk.call(choose, versioned=wire is oxp.FLAT)
    return Route("POST", path, handler, wire, reads_json=True, guess=lambda query, body: guess_wire(body, choose))


def _list(desk: OxpHandlers, path: str, wire: OxpFamilyWire, *, fixed: bool) -> Route:
    def guess(query: bytes, body: bytes) -> OxpFamilyWire:
        return negotiation.decode_list(query, body, wire, fixed=fixed)[0]

    return Route("GET", path, desk.list(wire, fixed=fixed), wire, reads_json=True, guess=guess)


def _health(desk: OxpHandlers, path: str, wire: OxpFamilyWire) -> Route:
    return Route("GET", path, desk.health(wire), wire, who="anyone")
