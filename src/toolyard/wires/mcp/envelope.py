"""JSON-RPC 2.0, as far as MCP uses it: requests, notifications and responses are decoded and encoded.

`params`, `result` and `error` stay undecoded here (`Raw`): only the method knows their shape. `params.decode_incoming`
decodes a call's parameters along with the envelope.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...model.errors import RequestError
from ...model.json_value import decode, decoder
from ..contract import JSON, Headers
from ..json_body import why_unreadable

LONGEST_ID = 1024
Id = int | Annotated[str, msgspec.Meta(max_length=LONGEST_ID)]
"""Of a request, and a token of its progress: it is said again in each event of a stream, and so it is short."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED = -32002, -32042
"""Codes of the older era alone."""

MOST_AT_ONCE = 50
"""How many messages a batch may have, which 2025-03-26 allows."""
_encode = msgspec.json.Encoder().encode


class RpcError(RequestError):
    """A request that is answered with a JSON-RPC error. `status` is the reply's, where the transport is HTTP."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.data, self.status = code, data, status


class Incoming(Struct):
    """A message from a client. With a method it is a request, or without an id a notification; any other is a
    response."""

    jsonrpc: str
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode = decoder(Incoming)
_decode_many = decoder(list[Raw])
LONGEST_WRITTEN_ID = 6 * LONGEST_ID + 2
"""With each of its characters as an escape."""


class _Identified(Struct):
    """A message of which nothing but the id is wanted: the rest is skipped, since it may be what is refused."""

    id: Raw = Raw(b"null")


_decode_id = decoder(_Identified)


def decode_message(body: bytes) -> Incoming:
    """One message. Raises RpcError."""
    try:
        message = _decode(body)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_REQUEST, f"Invalid request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {why_unreadable(body, error)}") from None
    return _checked(message)


def split_batch(body: bytes) -> list[bytes]:
    """The messages of a batch, each to be decoded by itself, so that a broken one spoils no other. Raises RpcError."""
    try:
        messages = _decode_many(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}") from None
    if not 1 <= len(messages) <= MOST_AT_ONCE:
        raise RpcError(INVALID_REQUEST, f"Invalid request: a batch has 1 to {MOST_AT_ONCE} messages")
    return list(map(bytes, messages))


def _checked(message: Incoming) -> Incoming:
    if message.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, "Invalid request: 'jsonrpc' must be \"2.0\"")
    # MCP forbids null as a request's id; JSON-RPC has it in errors about requests that could not be read.
    if message.id is None and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, "Invalid request: 'id' must be a string or an integer")
    if message.method is UNSET and message.result is UNSET and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, "Invalid request: expected 'method', 'result' or 'error'")
    return message


def id_of(body: bytes) -> Id | None:
    """The id of a message that cannot be decoded, if at least that can be read."""
    try:
        written = _decode_id(body).id
        id = decode(written) if len(written) <= LONGEST_WRITTEN_ID else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
    if isinstance(id, str):
        return id if len(id) <= LONGEST_ID else None
    return id if isinstance(id, int) and not isinstance(id, bool) else None  # true is an int to Python


def encode_result(id: Id, result: bytes) -> bytes:
    if type(id) is int:  # most clients count; this spares an encoder's call on the hot path
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(id), result)


def around_result(id: Id) -> tuple[bytes, bytes]:
    """The bytes before and after a result that is too large to be copied into its envelope."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(id), b"}"


def encode_error(id: Id | None, error: RpcError) -> bytes:
    """An error. Where the request's id could not be read it is left out."""
    members: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        members["data"] = error.data
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not None:
        message["id"] = id
    return _encode({**message, "error": members})


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    if params is None:
        return _encode({"jsonrpc": "2.0", "method": method})
    return _encode({"jsonrpc": "2.0", "method": method, "params": params})


def encode_request(id: Id, method: str, params: Mapping[str, Any]) -> bytes:
    return _encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


HEADERS: Headers = [JSON]
