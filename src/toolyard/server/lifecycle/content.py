"""`/v1/calls/{call_id}/content`: all that a call returned, whole or a part of it, byte for byte."""

import re
from hashlib import blake2b
from urllib.parse import quote

from ...engine.own_calls import OwnCalls
from ...model.errors import PathNotFound, Refused
from ...model.json_value import decode_as
from ...model.lifecycle import ENDED, State
from ...model.record import CallRecord
from ...wires.contract import JSON, Headers, Reply
from ...wires.errors import encode
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.reply_budget import ReplyBudget
from ..http.routes import Route
from .calls import found

BEYOND = 10**18
TEXT = (b"content-type", b"text/plain; charset=utf-8")
_range = re.compile(rb"bytes\s*=\s*([0-9]*)-([0-9]*)", re.IGNORECASE).fullmatch


def routes(own: OwnCalls, replies: ReplyBudget) -> list[Route]:
    """A stranger's call and one that never was get the same answer."""

    async def content(exchange: Exchange) -> Reply:
        await replies.read(exchange)
        # A session is the family of its tool uses.
        family = query.text(exchange, "session") or query.text(exchange, "family")
        call = await found(own, exchange.caller, exchange.parameters["call_id"], family)
        if call.state not in ENDED:
            raise Refused("The call has not ended; ask again later", "waiting")
        if call.state is not State.COMPLETE:
            raise PathNotFound("The call failed, so it has no content")
        return _part(exchange, call)

    return [Route("GET", "/v1/calls/{call_id}/content", content, LIFECYCLE)]


def _part(exchange: Exchange, call: CallRecord) -> Reply:
    """The tag is a digest: the call's number would do, but tells how many calls others make. Only GET has ranges."""
    value = call.value or b"null"
    body, kind = (decode_as(value, str).encode(), TEXT) if value.startswith(b'"') else (value, JSON)
    tag = b'"%b"' % blake2b(body, digest_size=16).hexdigest().encode()
    named = b"attachment; filename*=UTF-8''%b" % quote(call.key.call_id, safe="").encode()
    headers: Headers = [
        kind,
        (b"accept-ranges", b"bytes"),
        (b"etag", tag),
        (b"cache-control", b"private, no-cache"),
        (b"content-disposition", named),
    ]
    asked = exchange.headers.get(b"range") if exchange.method == "GET" else None
    if asked is None or exchange.headers.get(b"if-range", tag) != tag:
        return Reply(200, body, headers)
    found = _range(asked)
    if found is None or not _is_range(found[1], found[2]):
        return Reply(200, body, headers)  # several parts, or what is no range: as if it were not there
    first, last = _bounds(found[1], found[2], len(body))
    if first > last:
        said = encode({"message": f"The content has {len(body)} bytes, and none of them are in that range"})
        return Reply(416, said, [JSON, (b"content-range", b"bytes */%d" % len(body))])
    headers.append((b"content-range", b"bytes %d-%d/%d" % (first, last, len(body))))
    return Reply(206, body[first : last + 1], headers)


def _is_range(first: bytes, last: bytes) -> bool:
    if first and last:
        return _position(first) <= _position(last)
    return bool(first or last)


def _bounds(first: bytes, last: bytes, size: int) -> tuple[int, int]:
    """The first and the last byte that are asked for and there. Without a first one, it is the last so many."""
    if not first:
        return (max(0, size - _position(last)), size - 1) if _position(last) else (size, size - 1)
    return _position(first), min(_position(last), size - 1) if last else size - 1


def _position(digits: bytes) -> int:
    """Whatever has more digits than any size is beyond the end."""
    digits = digits.lstrip(b"0") or b"0"
    return int(digits) if len(digits) < len(str(BEYOND)) else BEYOND
