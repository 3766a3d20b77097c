"""Sessions: conversations with a model whose tool uses wait here for their results, and the events that tell of them.

A session's client sends the model's message, and each tool use in it becomes a request: a call that the server runs
itself, or that waits for somebody to claim it.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from .json_value import decoder
from .lifecycle import State, WaitingFor

_log = logging.getLogger("toolyard.ledger")


class SessionTool(Struct, frozen=True):
    """A tool that a session's client supplies. It exists in that session alone, and the server cannot run it: requests
    for it wait until somebody claims them."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


_tools = decoder(list[SessionTool])
_metadata = decoder(dict[str, Any])


def _status(open: int) -> str:
    return "awaiting_tools" if open else "ready"


class Session(Struct):
    """A conversation whose tool uses wait here for their results, with its tools, which may be megabytes."""

    id: str
    tenant: str
    subject: str
    tools: list[SessionTool]
    metadata: dict[str, Any]
    created_at: float = 0.0
    revision: int = 0
    """The number of its newest event."""
    turn: int = 0
    """The number of its newest message."""
    open: int = 0
    """How many of its requests have not ended."""

    @property
    def status(self) -> str:
        return _status(self.open)


class SessionCounts(Struct):
    """The counters of a session, which change with each of its requests."""

    revision: int
    turn: int
    open: int

    @property
    def status(self) -> str:
        return _status(self.open)


class SessionStanding(Struct, frozen=True):
    """How far a session is, for whoever asks again and again: without its tools, its metadata and inputs, which may be
    megabytes."""

    id: str
    size: int
    """Of its tools and its metadata, in bytes."""
    turn: int
    open: int

    @property
    def status(self) -> str:
        return _status(self.open)


def session_of(id: str, row: Sequence[Any]) -> Session:
    """A session from its row in the ledger. Tools or metadata that cannot be read are left out, and logged: one damaged
    row must not keep anybody from the rest of the ledger."""
    tenant, subject, tools, metadata, *rest = row
    try:
        return Session(id, tenant, subject, _tools(tools), _metadata(metadata), *rest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        _log.error("the tools or the metadata of the session %s cannot be read, and are left out: %s", id, error)
        return Session(id, tenant, subject, [], {}, *rest)


class Event(Struct, frozen=True):
    """Something that happened in a session, numbered: a `request` event or a `session` event."""

    number: int
    kind: str
    data: bytes


class RequestEvent(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The data of a `request` event: a request was made or has changed its state."""

    request_id: str
    tool: str
    state: State
    attempt: int
    waiting_for: WaitingFor | None = None


class SessionEvent(Struct, frozen=True, rename="camel"):
    """The data of a `session` event: the session's status has changed."""

    session_id: str
    status: str


class NewSession(Struct, frozen=True):
    """A request to open a session, with the tools that its client supplies."""

    tools: tuple[SessionTool, ...] = ()
    metadata: dict[str, Any] = {}


class ToolUse(Struct, frozen=True):
    """A tool use in a model's message. Where the input cannot be read, `problem` says why and `raw` is what the model
    wrote."""

    id: str
    name: str
    input: dict[str, Any] = {}
    raw: str | None = None
    problem: str | None = None
