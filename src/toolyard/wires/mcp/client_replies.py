"""The replies that an MCP client gets over HTTP: JSON or a stream of events, the response in it, and refusals as typed
errors. The server may be anybody's, so nothing about a reply's shape is taken for granted.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ...model.errors import (
    BodyTooLarge,
    Busy,
    Challenge,
    InternalError,
    Missing,
    MissingRequirements,
    NotAuthenticated,
    PathNotFound,
    RequestError,
    ToolNotFound,
    ToolyardError,
    Unavailable,
    UnsupportedProtocol,
)
from ...model.json_value import decode
from ..contract import Reply
from .envelope import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    Id,
)
from .headers import SESSION_HEADER
from .sse import EventReader

MODERN_ERRORS = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Codes that only a server of the newer era answers with."""
BUSY_MS = 1000
"""How long to wait where a busy server does not say."""
_unknown_tool = re.compile(r"unknown tool\b|tool .*not found", re.IGNORECASE).match
Message = Mapping[str, Any]


class Heard(Struct):
    """A reply to one request. It has a result or an error, or neither: then a stream has ended early, and the rest can
    be asked for with `last_event`."""

    status: int
    headers: Mapping[bytes, bytes]
    result: dict[str, Any] | None = None
    error: Message | None = None
    last_event: str | None = None
    retry_ms: int | None = None

    @property
    def code(self) -> int | None:
        code = None if self.error is None else self.error.get("code")
        return code if isinstance(code, int) else None

    @property
    def session(self) -> str | None:
        session = self.headers.get(SESSION_HEADER)
        return None if session is None else session.decode("latin-1")

    @property
    def is_modern(self) -> bool:
        """Whether only a server of the newer era can have answered so."""
        if self.result is not None:
            return "resultType" in self.result
        return self.code in MODERN_ERRORS or (self.status == 404 and self.code == METHOD_NOT_FOUND)

    @property
    def is_older(self) -> bool:
        """Whether this answer to a request of the newer era shows a server of the older one. A server that is busy,
        broken or wants credentials may be of either."""
        return not self.is_modern and self.status not in (401, 403, 413, 429) and self.status < 500

    def supported(self) -> list[str]:
        """The revisions that the server says it supports, where it does not support the one that was used."""
        data = self.error.get("data") if self.error is not None and self.code == UNSUPPORTED_VERSION else None
        named = data.get("supported") if isinstance(data, dict) else None
        return [each for each in named if isinstance(each, str)] if isinstance(named, list) else []


def hear(reply: Reply, id: Id) -> Heard:
    """The response to the request with this id, in JSON or in a stream of events."""
    headers = dict(reply.headers)
    heard = Heard(reply.status, headers)
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == b"text/event-stream":
        messages = _read_events(reply.body, heard)
    else:
        messages = _messages(reply.body)
    for message in messages:
        # Notifications may come before the response. An error without an id is about the request that could not be
        # read, and there was one only.
        if "method" not in message and (message.get("id") == id or ("error" in message and message.get("id") is None)):
            result, error = message.get("result"), message.get("error")
            heard.result = result if isinstance(result, dict) else None
            heard.error = error if isinstance(error, dict) else None
    return heard


def _read_events(body: bytes, heard: Heard) -> Iterator[Message]:
    """The messages of a stream of events. `last_event` and `retry_ms` go into `heard`."""
    reader = EventReader()
    for event in [*reader.feed(body), *reader.finish()]:
        yield from _messages(event.data)
    heard.last_event, heard.retry_ms = reader.last_id or None, reader.retry_ms


def _messages(body: bytes | str) -> Iterator[Message]:
    """The messages of a body: one, or a batch. What is no message is ignored."""
    try:
        found = decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for each in found if isinstance(found, list) else [found]:
        if isinstance(each, dict):
            yield each


# --- refusals ------------------------------------------------------------------------------------


def refusal_of(heard: Heard, url: str = "") -> ToolyardError:
    """The error behind a reply without a result."""
    given = heard.error.get("message") if heard.error is not None else None
    message = str(given) if given else _sentence(heard, url)
    details = None if heard.error is None else f"MCP error {heard.code}{_data(heard.error)}"
    # The status before the code: a proxy before the server has statuses alone.
    if heard.status in (429, 503):
        kind: type[Busy] = Busy if heard.status == 429 else Unavailable
        return kind(message, retry_after_ms=_retry_after(heard.headers), developer_message=details)
    if heard.status in _BY_STATUS:
        return _BY_STATUS[heard.status](message, developer_message=details)
    if links := _links(heard):
        challenges = tuple(Challenge(str(each.get("elicitationId", "")), each["url"], "") for each in links)
        sentences = "; ".join(dict.fromkeys(each["message"] for each in links))
        return MissingRequirements(sentences, Missing(challenges), developer_message=details or message)
    if heard.code == UNSUPPORTED_VERSION:
        return UnsupportedProtocol(message, developer_message=details)
    if heard.code is not None and _unknown_tool(message):
        return ToolNotFound(message, developer_message=details)
    if heard.code == INTERNAL_ERROR or heard.status >= 500 or (heard.code is None and heard.status < 300):
        return InternalError(message, developer_message=details)
    if heard.status == 404 and heard.code is None:
        return PathNotFound(message, developer_message=details)
    return RequestError(message, developer_message=details)


_BY_STATUS: dict[int, type[ToolyardError]] = {401: NotAuthenticated, 413: BodyTooLarge}


def _sentence(heard: Heard, url: str) -> str:
    if heard.status == 401:
        return "The server wants a key or a token, or another one"
    if heard.status == 404:
        return f"There is no MCP server at {url}"
    if 300 <= heard.status < 400:
        return f"The server is somewhere else: {heard.headers.get(b'location', b'').decode('latin-1')}"
    if heard.status < 300:
        return "The server's answer is not one to this request"
    return f"The server answered with status {heard.status}"


def _links(heard: Heard) -> list[dict[str, Any]]:
    """The elicitations with a page that a person has to open before the call can be made."""
    if heard.error is None or heard.code not in (MISSING_CAPABILITY, URL_ELICITATION_REQUIRED):
        return []
    data = heard.error.get("data")
    listed = data.get("elicitations") if isinstance(data, dict) else None
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in found if isinstance(each.get("url"), str) and isinstance(each.get("message"), str)]


def _data(error: Message) -> str:
    return f": {msgspec.json.encode(error['data'])[:500].decode('utf-8', 'replace')}" if error.get("data") else ""


def _retry_after(headers: Mapping[bytes, bytes]) -> int:
    seconds = headers.get(b"retry-after", b"")
    return int(seconds[:6]) * 1000 if seconds.isdigit() else BUSY_MS
