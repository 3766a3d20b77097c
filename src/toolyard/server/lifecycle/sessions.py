"""`/v1/sessions`: a model's tool uses in, their results out.

A session follows one conversation. Its client posts what the model said, and the tool uses in it become calls, run
here, by a worker, or by the client itself. Their results are collected together, in the form that the model's provider
wants for its next turn, or followed one by one as events.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial

from ...engine.sessions import Sessions, TurnResults
from ...model.errors import InvalidInput, Problem
from ...model.record import CallRecord
from ...model.session import SessionStanding
from ...runners.scrub_thread import beside_loop
from ...wires.contract import JSON, Reply, Stream
from ...wires.lifecycle import provider_messages
from ...wires.lifecycle import sessions as wire
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.model_text import ModelText
from ..http import query
from ..http.exchange import Exchange, Gone
from ..http.reply_budget import LARGE_REPLY, ReplyBudget
from ..http.routes import Handler, Route
from ..intake.intake import Intake

KEEP_ALIVE_S = 15.0
EVENTS_AT_ONCE = 100
EVENT_STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


class SessionHandlers:
    """The handlers of sessions. Tool uses go through the intake, a message at a time."""

    def __init__(
        self, sessions: Sessions, intake: Intake, new_id: Callable[[], str], telling: ModelText, replies: ReplyBudget
    ) -> None:
        self._replies = replies
        self._sessions, self._intake, self._new_id, self._telling = sessions, intake, new_id, telling

    def routes(self) -> list[Route]:
        at = "/v1/sessions/{sessionId}"
        return [
            _route("POST", "/v1/sessions", self.open),
            _route("GET", at, self.show),
            _route("POST", f"{at}/messages", self.take),
            _route("GET", f"{at}/results", self.results),
            _route("GET", f"{at}/events", self.events),
        ]

    async def open(self, exchange: Exchange) -> Reply:
        caller = exchange.caller
        new = wire.decode_session(exchange.body)
        return wire.encode_session_created(await self._sessions.open(caller, f"ses_{self._new_id()}", new))

    async def show(self, exchange: Exchange) -> Reply:
        session = await self._standing(exchange)
        metadata = await self._sessions.metadata(session.id)
        return wire.encode_session(session, metadata, await self._sessions.requests(session.id))

    async def take(self, exchange: Exchange) -> Reply:
        caller, id = exchange.caller, exchange.parameters["sessionId"]
        await self._standing(exchange)
        uses = provider_messages.decode_message(exchange.body)
        take = partial(self._sessions.take, caller, id, uses, exchange.base_url)
        calls = await self._intake.uses("lifecycle", caller, exchange, take)
        return wire.encode_turn(calls)

    async def _standing(self, exchange: Exchange) -> SessionStanding:
        """For who goes on to read the session: a large one is read when there is room for it."""
        session = await self._sessions.standing(exchange.caller, exchange.parameters["sessionId"])
        if session.size > LARGE_REPLY:
            await self._replies.read(exchange)
        return session

    async def results(self, exchange: Exchange) -> Reply | Stream:
        """All in one message, as providers want them: those that are too many to be held at once are sent as they are
        read."""
        caller = exchange.caller
        format, wait = _format(exchange), query.wait(exchange)
        results = await self._sessions.results(caller, exchange.parameters["sessionId"], wait)
        if results is None:
            return wire.encode_awaiting()
        await self._replies.read(exchange)
        first = await results.next()
        if results.is_over:
            encode = partial(provider_messages.encode_results, format, first, self._telling)
            return wire.encode_ready(await beside_loop(encode, sum(call.size for call in first)))
        encoder = provider_messages.ResultsStream(format, self._telling)
        return Stream(200, [JSON], self._sent(encoder, first, results, exchange), has_an_end=True, caller=caller)

    async def _sent(
        self, encoder: provider_messages.ResultsStream, page: list[CallRecord], results: TurnResults, exchange: Exchange
    ) -> AsyncIterator[bytes]:
        """As fast as the client reads, and no more than a page is in memory. To encode one takes time on the loop as
        well, so the place is kept until the last is sent."""
        yield encoder.head
        try:
            place = await self._replies.read(exchange)
        except Gone:
            return
        try:
            while True:
                while page:
                    call = page.pop(0)
                    yield await beside_loop(partial(encoder.encode, call), call.size)
                if results.is_over:
                    break
                page = await results.next()
        finally:
            place.give()
        yield encoder.tail()

    async def events(self, exchange: Exchange) -> Stream:
        caller = exchange.caller
        last = exchange.headers.get(b"last-event-id", b"0")
        if not (last.isdigit() and len(last) <= 15):
            raise InvalidInput((Problem("Last-Event-ID", "Must be the id of an event"),))
        session = await self._sessions.standing(caller, exchange.parameters["sessionId"])
        return Stream(200, EVENT_STREAM, self._events(session.id, int(last)))

    async def _events(self, id: str, last: int) -> AsyncIterator[bytes]:
        yield b": events\n\n"  # at once, so that the client knows that it is connected
        while True:
            events = await self._sessions.events(id, last, EVENTS_AT_ONCE, KEEP_ALIVE_S)
            yield b"".join(map(wire.encode_event, events)) or b": still here\n\n"
            last = events[-1].number if events else last


def _format(exchange: Exchange) -> provider_messages.Format:
    given = query.text(exchange, "format") or "anthropic"
    if given == "anthropic" or given == "openai":
        return given  # type: ignore[return-value]
    raise InvalidInput((Problem("format", "Must be anthropic or openai"),))


def _route(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, handler, LIFECYCLE, reads_json=method == "POST")
