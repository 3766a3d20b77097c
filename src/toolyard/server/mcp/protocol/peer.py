"""Whoever sent a message, and how they can be reached while it is worked on."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct

from ....model.caller import Caller
from ....model.channel import Audience
from ....wires.mcp.params import Capabilities, Level, Message
from ....wires.mcp.revisions import Revision
from ...http.reply_budget import Place
from ...intake.witness import RequestOrigin


class Peer(Struct, frozen=True):
    """The client that sent a message: who it is, and what it can do as far as its request or its session says."""

    revision: Revision
    caller: Caller
    capabilities: Capabilities
    log_level: Level | None = None
    """From which on it wants to be told what tools log. None: not at all."""
    session: str | None = None
    has_tasks: bool = False
    """Whether a client of the newer era said that it can have tasks."""


class Outlet(Audience, Protocol):
    """The way to a client whose request is being worked on."""

    def send(self, message: bytes) -> None:
        """A message before the response. On the loop."""
        ...

    def respond(self, result: bytes) -> None:
        """The response, now, while the work goes on; what comes later is thrown away. On the loop."""
        ...

    def takes_long(self, record: Callable[[], None]) -> None:
        """What runs did not end at once; `record` has it put in the ledger."""
        ...

    def on_recorded(self, seq: int) -> None:
        """What runs is a call in the ledger, under that number."""
        ...

    def no_resumption(self) -> None:
        """What runs was begun by another request: here nothing can be taken up again."""
        ...


class McpRequest(Protocol):
    """A request on its way to its method, as its transport hands it over: the message and who sent it. Most requests
    are answered at once and need no more, so the rest is found or made when it is asked for."""

    message: Message
    peer: Peer

    @property
    def body(self) -> bytes:
        """The message as it came, for what was not kept of it when it was decoded."""
        ...

    @property
    def outlet(self) -> Outlet:
        """The way back to the client, for what is said before the response. On the loop."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether anything but the response can reach the client."""
        ...

    @property
    def headers(self) -> Mapping[bytes, bytes] | None:
        """The headers that have to repeat the message; None where none have to."""
        ...

    @property
    def origin(self) -> RequestOrigin:
        """Where it came from, for the audit log."""
        ...

    def read(self) -> Awaitable[Place]:
        """A place to read what may be large, until the request is answered or the place is given up."""
        ...

    def may_keep(self, size: int) -> bool:
        """Whether a result of so many bytes, which was read without a place, may be kept for the reply."""
        ...

    def when_answered(self, callback: Callable[[], None]) -> None:
        """Has `callback` called once the request is over."""
        ...

    def base_url(self) -> str:
        """The address under which the client reaches this server, for links."""
        ...
