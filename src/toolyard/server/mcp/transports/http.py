"""MCP over HTTP, at `/mcp`: both eras at one address, told apart by what a request carries."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import UNSET, Struct

from ....catalogue import Catalogue
from ....model.errors import Forbidden, RequestError, ToolyardError
from ....runners.attempt import resumed
from ....wires.contract import Reply, Stream
from ....wires.mcp.envelope import INVALID_PARAMS, Id, RpcError, encode_error, id_of
from ....wires.mcp.headers import NAMED, VERSION_HEADER, check_headers
from ....wires.mcp.params import VERSION, CallMessage, Message, decode_incoming, raw_params
from ....wires.mcp.revisions import HANDSHAKE, MODERN
from ...http.admission import metadata_of
from ...http.exchange import Exchange
from ...http.reply_budget import Place, ReplyBudget
from ...http.routes import Route
from ..methods.client_answers import ClientAnswers
from ..methods.dispatcher import Dispatcher
from ..protocol.eras import modern_peer, params_of
from ..protocol.peer import Peer
from ..protocol.refusals import ACCEPTED, MCP, as_rpc, refused
from ..protocol.sessions import McpSessions
from .cancellation import Asked, RunningRequests
from .http_stream import HttpOutlet, Keeping, takes_events, whole_reply
from .older_http import OlderEra
from .resumed_streams import OlderStreams

_OLDER = frozenset(name.encode() for name in HANDSHAKE)
_VERSION = VERSION.encode()
CALLS = "toolyard://calls/"
"""Results that are read from the ledger, and may be large."""


class HttpRequest(Struct, eq=False):
    """A request over HTTP (an `McpRequest`). Its outlet is made for those that are not answered at once."""

    message: Message
    peer: Peer
    origin: Exchange
    id: Id
    keeping: Keeping
    replies: ReplyBudget
    made: HttpOutlet | None = None
    """The outlet, once there is one."""

    @property
    def body(self) -> bytes:
        return self.origin.body

    @property
    def outlet(self) -> HttpOutlet:
        if self.made is None:
            can_resume = self.peer.session is not None and self.message.method == "tools/call"
            stream_s = self.keeping.stream_s if can_resume else None
            self.made = HttpOutlet(self.origin, self.peer, self.id, self.keeping, stream_s)
        return self.made

    @property
    def is_open(self) -> bool:
        return takes_events(self.origin)

    @property
    def headers(self) -> Mapping[bytes, bytes] | None:
        return self.origin.headers if self.peer.revision.is_modern else None

    def read(self) -> Awaitable[Place]:
        return self.replies.read(self.origin)

    def may_keep(self, size: int) -> bool:
        return self.replies.may_keep(self.origin, size)

    def when_answered(self, callback: Callable[[], None]) -> None:
        self.origin.at_end.append(callback)

    def base_url(self) -> str:
        return self.origin.base_url()


class McpHttp:
    """The handlers of `/mcp`: tells the eras apart, and answers a request with one reply or a stream."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        sessions: McpSessions,
        streams: OlderStreams,
        answers: ClientAnswers,
        keeping: Keeping,
        replies: ReplyBudget,
        running: RunningRequests,
        catalogue: Catalogue,
    ) -> None:
        self._dispatcher, self._keeping, self._replies = dispatcher, keeping, replies
        self._running, self._catalogue = running, catalogue
        self._older = OlderEra(sessions, answers, streams, running, dispatcher.initialized, self._answer)

    def routes(self) -> list[Route]:
        return [
            Route(method, path, handler, MCP, reads_json=method == "POST")
            for path in ("/mcp", "/mcp/")
            for method, handler in (("POST", self.post), ("GET", self.get), ("DELETE", self.delete))
        ]

    def post(self, exchange: Exchange) -> Awaitable[Reply]:
        """No coroutine of its own around the others: it would cost as much as the decoding."""
        body, caller = exchange.body, exchange.caller
        if body[:1] != b"{" and body.lstrip()[:1] == b"[":
            return self._older.batch(exchange, caller)
        try:
            message = decode_incoming(body)
            modern = self._modern_peer(message, exchange)
        except RpcError as error:
            return _given(refused(error, id_of(body)))
        if modern is not None:
            return self._answer(message, modern, exchange)
        return self._older.post(message, exchange, caller)

    def get(self, exchange: Exchange) -> Awaitable[Reply | Stream]:
        return self._older.get(exchange, exchange.caller)

    def delete(self, exchange: Exchange) -> Awaitable[Reply]:
        return self._older.delete(exchange, exchange.caller)

    async def _answer(self, message: Message, peer: Peer, exchange: Exchange) -> Reply:
        """What ends with its first step has made no timer and no outlet, and is not known to anybody."""
        id = message.id
        if id is UNSET or id is None:
            return ACCEPTED
        request = HttpRequest(message, peer, exchange, id, self._keeping, self._replies)
        if message.method == "resources/read" and str(_target(message)).startswith(CALLS):
            await request.read()
        try:
            steps = self._dispatcher.answer(request)
            try:
                waiting_for = steps.send(None)
            except StopIteration as done:
                result: bytes = done.value
            else:
                going_on = resumed(steps, waiting_for)
                del waiting_for  # a future keeps its result, which may be large
                asked = self._asked(message, peer)
                with request.outlet.soon(), self._running.kept(peer, id, request.outlet, asked):
                    result = await going_on
        except ToolyardError as error:
            return _refused(error, request)
        return whole_reply(id, result) if request.made is None else request.made.result(result)

    def _asked(self, message: Message, peer: Peer) -> Asked:
        view = peer.caller.view
        if type(message) is not CallMessage:
            return Asked(view.reach)
        tool, meta = self._catalogue.named(message.params.name, view), message.params.meta
        if tool is None or meta is UNSET or meta.tool_version is UNSET:
            return Asked(view.reach, None if tool is None else tool.reference)
        return Asked(view.reach, f"{tool.id}@{meta.tool_version}")

    def _modern_peer(self, message: Message, exchange: Exchange) -> Peer | None:
        """None for a request of the older era. Raises RpcError for one of the newer that is not as it must be."""
        headers, is_older = exchange.headers, exchange.headers.get(VERSION_HEADER, b"") in _OLDER
        if is_older and exchange.body.find(_VERSION) < 0:
            return None
        version = headers.get(VERSION_HEADER, b"").decode("latin-1")
        params = message.params if type(message) is CallMessage else params_of(message)
        said = version if params.meta is UNSET or params.meta.version is UNSET else params.meta.version
        if is_older and said not in MODERN:
            return None
        if version and version != said:
            check_headers(headers, said, str(message.method), None)
        peer = modern_peer(message, params, exchange.caller, self._dispatcher.modern, version)
        if peer is not None and message.id is not UNSET:
            target = message.params.name if type(message) is CallMessage else _target(message)
            check_headers(headers, said, str(message.method), target)
        return peer


def _target(message: Message) -> object:
    """What a request is about, for the methods that have `Mcp-Name` repeat it."""
    named = NAMED.get(str(message.method))
    return raw_params(message).get(named) if named else None


def _refused(error: ToolyardError, request: HttpRequest) -> Reply:
    """The reply to a request that has no result."""
    if isinstance(error, Forbidden):
        error.challenge += f', resource_metadata="{metadata_of(request.origin)}"'
        return refused(error, request.id)
    status = 200
    if isinstance(error, RpcError):
        rpc, status = error, error.status if request.peer.revision.is_modern else 200
    elif isinstance(error, RequestError):
        rpc = RpcError(INVALID_PARAMS, error.message)
    else:
        rpc = as_rpc(error)
    return request.outlet.reply(status, encode_error(request.id, rpc))


async def _given(reply: Reply) -> Reply:
    return reply
