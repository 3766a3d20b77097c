"""The handlers of OXP 1.0, OTC 1.0 and the OTC draft: call, list, health.

The routes of OXP 1.0, OTC 1.0 and the OTC draft: one row each.
"""

from collections.abc import Awaitable, Callable

from ...engine.engine import Engine
from ...model.call import CallTool, Outcome
from ...model.channel import QuietChannel
from ...model.clock import Clock
from ...model.errors import ToolNotFound, ToolyardError
from ...wires.contract import OxpFamilyWire, Reply
from ...wires.model_text import ModelText
from ...wires.oxp import negotiation, otc, otc_draft, oxp
from ...wires.oxp.negotiation import Choose, check_version, decode_call, decode_list, guess_wire
from ..http.exchange import Exchange
from ..http.routes import Handler, Route
from ..http.trace_context import trace_of
from ..intake.readiness import Readiness
from ..intake.witness import CallOutcomeNote, Witness
from .listing import Listing


class HttpChannel(QuietChannel):
    """To a client that waits for one reply: it can be given early, and the client can go away."""

    __slots__ = ("_before", "_exchange", "_wire")

    def __init__(self, exchange: Exchange, wire: OxpFamilyWire, before: "Before | None") -> None:
        """`before` is done before the client is told anything early; None where nothing is."""
        self.cancelled = False
        self._exchange, self._wire, self._before = exchange, wire, before

    def answer(self, outcome: Outcome) -> None:
        if self._before is None:
            self._answer(outcome)
        else:
            self._before(self._exchange, outcome, self._answer)

    def _answer(self, outcome: Outcome) -> None:
        self._exchange.answer(self._wire.encode_outcome(outcome))

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._exchange.when_gone(callback)

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._exchange.when_expired(callback)


Before = Callable[[Exchange, Outcome, Callable[[Outcome], None]], None]


class OxpHandlers:
    """Takes requests of the family: who asks, in which protocol, for what."""

    def __init__(
        self,
        engine: Engine,
        listing: Listing,
        witness: Witness,
        readiness: Readiness,
        seam: Clock,
        telling: ModelText,
    ) -> None:
        self._engine, self._listing = engine, listing
        self._witness, self._metrics = witness, witness.metrics
        self._readiness, self._monotonic, self._telling = readiness, seam.monotonic, telling
        self._before = self._write_first if witness.is_strict else None

    def _write_first(self, exchange: Exchange, outcome: Outcome, answer: Callable[[Outcome], None]) -> None:
        self._engine.beside(self._written_first(exchange, outcome, answer))

    async def _written_first(self, exchange: Exchange, outcome: Outcome, answer: Callable[[Outcome], None]) -> None:
        """Where that cannot be written, the client waits for the end."""
        call = await self._engine.recorded_call(exchange.caller, outcome.call_id)
        if call is not None:
            await self._witness.told_early(call, exchange.caller, exchange, "still_running")
            answer(outcome)

    def call(self, choose: Choose, *, versioned: bool) -> Handler:
        """`POST …/call`. `choose` finds the wire; `versioned` paths look at `OXP-Version`."""

        def handle(exchange: Exchange) -> Awaitable[Reply]:
            """No coroutine of its own around `_answer`: it would cost as much as the decoding."""
            if versioned and b"oxp-version" in exchange.headers:
                check_version(exchange.headers[b"oxp-version"])
            wire, command = decode_call(exchange.body, choose)
            if isinstance(command, CallTool):
                return self._answer(wire, command, exchange)
            return _given(wire.encode_error(command))

        return handle

    async def _answer(self, wire: OxpFamilyWire, command: CallTool, exchange: Exchange) -> Reply:
        started, caller = self._monotonic(), exchange.caller
        trace = trace_of(exchange.headers) if b"traceparent" in exchange.headers else None
        if trace is not None and command.trace_id is None:
            command.trace_id = trace[0]
        tool, ended = None, CallOutcomeNote()
        command.wire, command.family = wire.name, wire.family
        self._metrics.running += 1
        try:
            if self._readiness.status != "ok":
                raise self._readiness.refusal()
            if self._witness.is_strict:
                self._witness.ready()
            try:
                tool = self._engine.resolve(command.tool_id, caller, latest=command.latest)
            except ToolNotFound:
                known = await self._engine.replay(command, caller)
                if known is None:
                    raise
                outcome = known
            else:
                outcome = await self._engine.call(
                    tool, command, caller, HttpChannel(exchange, wire, self._before), exchange.base_url
                )
            ended.with_outcome(outcome)
            if outcome.error is not None:
                outcome = self._telling.outcome(outcome)
            reply = wire.encode_outcome(outcome)
        except ToolyardError as error:
            ended.with_error(error)
            reply = wire.encode_error(self._telling.error(error), command)
        finally:
            self._metrics.running -= 1
        self._witness.called(tool, command, caller, exchange, ended, self._monotonic() - started)
        if self._witness.is_strict:
            await self._witness.written()
        if trace is not None:
            reply.headers = [*reply.headers, (b"traceparent", trace[1])]
        return reply

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
