"""What an upstream sends, as messages, held to bounds before anybody looks inside.

Most of a message is passed on as it came, to wires, ledger and clients that take it for JSON of this server's own. So
here it is made sure that it is: UTF-8, with numbers that are finite and not too long, and neither deeper nor with more
in it than everything behind this can bear.
"""

import msgspec

from ..model.json_bounds import JsonBounds
from ..model.json_value import decode
from ..wires.mcp.envelope import Incoming, RpcError, decode_message, split_batch
from .faults import Misbehaved

BOUNDS = JsonBounds(depth=128)
"""Deeper than a request may be: a definition is a few levels inside its list."""


def message_in(json: bytes) -> Incoming:
    """The message in a line. Raises Misbehaved."""
    _refuse_unbounded(json)
    return _message(json)


def messages_in(json: bytes) -> list[Incoming]:
    """Those in a body: one, or a batch. Raises Misbehaved."""
    _refuse_unbounded(json)
    if not json.lstrip(b" \t\r\n").startswith(b"["):
        return [_message(json)]
    try:
        return [_message(each) for each in split_batch(json)]
    except RpcError as error:
        raise _no_message(error) from None


def _refuse_unbounded(json: bytes) -> None:
    excess = BOUNDS.excess(json)
    if excess is not None:
        raise Misbehaved(f"sent a message that {excess.what}: {excess.bound}")
    try:
        decode(json)
    except UnicodeDecodeError:
        raise Misbehaved("sent a text that is not UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Misbehaved(f"sent something that is no MCP: {str(error)[:200]}") from None


def _message(json: bytes) -> Incoming:
    try:
        return decode_message(json)
    except RpcError as error:
        raise _no_message(error) from None


def _no_message(error: RpcError) -> Misbehaved:
    return Misbehaved(f"sent something that is no MCP: {error.message[:200]}")
