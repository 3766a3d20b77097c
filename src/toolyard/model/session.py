"""Sessions and workers: whose requests belong together, and who offers tools from elsewhere."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from .lifecycle import State, WaitingFor

_log = logging.getLogger("toolyard.ledger")


class SessionTool(Struct, frozen=True):
    """A tool that a session brought with it. It waits for a caller, and belongs to that session alone."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None


_tools = msgspec.json.Decoder(list[SessionTool]).decode
_metadata = msgspec.json.Decoder(dict[str, Any]).decode


def _status(open: int) -> str:
    return "awaiting_tools" if open else "ready"


class Session(Struct):
    """A conversation whose tool uses wait here for their results."""

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
    """What changes in a session with each of its requests."""

    revision: int
    turn: int
    open: int

    @property
    def status(self) -> str:
        return _status(self.open)


class SessionStanding(Struct, frozen=True):
    """Where a session stands. Its tools, and what its requests are about, may be many megabytes: they are not here."""

    id: str
    metadata: dict[str, Any]
    turn: int
    open: int

    @property
    def status(self) -> str:
        return _status(self.open)


def session_of(id: str, row: Sequence[Any]) -> Session:
    """A session's row. What of it cannot be read is left out and said to be in the log: it keeps nobody from what else
    is in the ledger."""
    tenant, subject, tools, metadata, *rest = row
    try:
        return Session(id, tenant, subject, _tools(tools), _metadata(metadata), *rest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        _log.error("the tools or the metadata of the session %s cannot be read, and are left out: %s", id, error)
        return Session(id, tenant, subject, [], {}, *rest)


class Event(Struct, frozen=True):
    """Something that happened in a session: `request` or `session`, numbered without gaps."""

    number: int
    kind: str
    data: bytes


class RequestEvent(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a `request` event says."""

    request_id: str
    tool: str
    state: State
    attempt: int
    waiting_for: WaitingFor | None = None


class SessionEvent(Struct, frozen=True, rename="camel"):
    """What a `session` event says."""

    session_id: str
    status: str


class NewSession(Struct, frozen=True):
    """A session to be opened."""

    tools: tuple[SessionTool, ...] = ()
    metadata: dict[str, Any] = {}


class ToolUse(Struct, frozen=True):
    """A model wants a tool. `problem`: why its input cannot be read; then `raw` is what the model wrote."""

    id: str
    name: str
    input: dict[str, Any] = {}
    raw: str | None = None
    problem: str | None = None
