"""Whoever sent a message, and how they can be reached while it is worked on."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from ....model.caller import Caller
from ....model.channel import Audience
from ....model.record import CallRecord
from ....wires.mcp.envelope import Incoming
from ....wires.mcp.params import Capabilities, Level
from ....wires.mcp.revisions import Revision


class Peer(Struct):
    """The client that sent a message: who it is, and what it can do as far as its request or its session says."""

    revision: Revision
    caller: Caller
    capabilities: Capabilities
    log_level: Level | None = None
    """From which on it wants to be told what tools log. None: not at all."""
    session: str | None = None
    has_tasks: bool = False
    """Whether a client of the newer era said that it can have tasks."""
    address: str = ""
    """Where it is."""


class Outlet(Audience, Protocol):
    """The way to a client whose request is being worked on."""

    @property
    def is_open(self) -> bool:
        """Whether anything but the response can reach it."""
        ...

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


class McpRequest(Struct, frozen=True):
    """A request on its way to its method: the message, who sent it, the way back to them, and the address under which
    they reach this server (asked for only where a link has to be made)."""

    message: Incoming
    peer: Peer
    outlet: Outlet
    base_url: Callable[[], str]


def owns(caller: Caller, call: CallRecord) -> bool:
    return caller.owns(call.key.tenant, call.key.subject)
