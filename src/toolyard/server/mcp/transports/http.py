"""MCP over HTTP, at `/mcp`: both eras at one address, told apart by what a request carries."""

from collections.abc import Awaitable, Mapping

from msgspec import UNSET

from ....model.errors import Forbidden, RequestError, ToolyardError
from ....runners.attempt import resumed
from ....wires.contract import Reply, Stream
from ....wires.mcp.envelope import INVALID_PARAMS, Incoming, RpcError, decode_message, encode_error, id_of
from ....wires.mcp.headers import NAMED, VERSION_HEADER, check_headers, check_parameters
from ....wires.mcp.params import VERSION, CallParams, Params, raw_params
from ....wires.mcp.revisions import HANDSHAKE, MODERN
from ...http.admission import metadata_of
from ...http.exchange import Exchange
from ...http.routes import Route
from ..methods.client_answers import ClientAnswers
from ..methods.dispatcher import Dispatcher
from ..protocol.eras import modern_peer, params_of
from ..protocol.peer import McpRequest, Peer
from ..protocol.refusals import ACCEPTED, MCP, as_rpc, refused
from ..protocol.sessions import McpSessions
from .cancellation import RunningRequests
from .http_stream import HttpOutlet, Keeping
from .older_http import OlderEra
from .resumed_streams import OlderStreams

_OLDER = frozenset(name.encode() for name in HANDSHAKE)
_VERSION = VERSION.encode()


class McpHttp:
    """The handlers of `/mcp`: tells the eras apart, and answers a request with one reply or a stream."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        sessions: McpSessions,
        streams: OlderStreams,
        answers: ClientAnswers,
        keeping: Keeping,
        stream_s: float,
    ) -> None:
        self._dispatcher, self._keeping, self._stream_s = dispatcher, keeping, stream_s
        self._running = running = RunningRequests(keeping.store)
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
            message = decode_message(body)
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

    async def _answer(self, message: Incoming, peer: Peer, exchange: Exchange) -> Reply:
        """What ends with its first step has made no timer, and is not known to anybody."""
        id, peer.address = message.id, exchange.address
        if id is UNSET or id is None:
            return ACCEPTED
        stream_s = self._stream_s if peer.session is not None and message.method == "tools/call" else None
        outlet = HttpOutlet(exchange, peer, id, self._keeping, stream_s)
        try:
            steps = self._dispatcher.answer(McpRequest(message, peer, outlet, exchange.base_url))
            try:
                waiting_for = steps.send(None)
            except StopIteration as done:
                result: bytes = done.value
            else:
                with outlet.soon(), self._running.kept(peer, id, outlet):
                    result = await resumed(steps, waiting_for)
        except RpcError as error:
            status = error.status if peer.revision.is_modern else 200
            return outlet.reply(status, encode_error(id, error))
        except Forbidden as error:
            error.challenge += f', resource_metadata="{metadata_of(exchange)}"'
            return refused(error, id)
        except RequestError as error:
            rpc = RpcError(INVALID_PARAMS, error.message)
            return outlet.reply(200, encode_error(id, rpc))
        except ToolyardError as error:
            return outlet.reply(200, encode_error(id, as_rpc(error)))
        return outlet.result(result)

    def _modern_peer(self, message: Incoming, exchange: Exchange) -> Peer | None:
        """None for a request of the older era. Raises RpcError for one of the newer that is not as it must be."""
        headers, is_older = exchange.headers, exchange.headers.get(VERSION_HEADER, b"") in _OLDER
        if is_older and _VERSION not in exchange.body:
            return None
        version, params = headers.get(VERSION_HEADER, b"").decode("latin-1"), params_of(message)
        said = version if params.meta is UNSET or params.meta.version is UNSET else params.meta.version
        if is_older and said not in MODERN:
            return None
        if version and version != said:
            check_headers(headers, said, str(message.method), None)
        peer = modern_peer(message, params, exchange.caller, self._dispatcher.modern, version)
        if peer is not None and message.id is not UNSET:
            self._check_headers(message, params, headers, peer)
        return peer

    def _check_headers(self, message: Incoming, params: Params, headers: Mapping[bytes, bytes], peer: Peer) -> None:
        version = peer.revision.name
        if isinstance(params, CallParams):
            check_headers(headers, version, "tools/call", params.name)
            mirrored = self._dispatcher.mirrored(params.name, peer.caller)
            if mirrored:
                check_parameters(headers, mirrored, params.arguments)
        else:
            named = NAMED.get(str(message.method))
            check_headers(headers, version, str(message.method), raw_params(message).get(named) if named else None)


async def _given(reply: Reply) -> Reply:
    return reply
