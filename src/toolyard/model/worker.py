"""Workers, and what they and the server say to each other in the lifecycle API.

A worker registers its tools (`ToolDefinition`), claims their calls (`Claim`, `Claimed`), renews its claims with
heartbeats (`Renewal`, `RenewalAnswer`) and submits results (`Response`) or errors (`Heartbeat` with an error). `wires`
has the JSON of these.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from .call import NO_CONTEXT, CallContext
from .caller import Caller
from .errors import ToolError
from .tool import Requirements, TaskUse


def offer_of(reference: str, owner: Sequence[str], definition: bytes) -> str:
    """What a call of a worker's tool is made to: the tool, whose it is, and a digest of its definition. The name alone
    would not do: when its worker is gone, anybody may take it, or its owner may offer something else by it. A call
    remembers its offer, and only those who make the same one are given it."""
    return f"{reference} {_digest(msgspec.json.encode(list(owner)))} {_digest(definition)}"


def reference_of(offer: str) -> str:
    """The tool's id and version."""
    return offer.partition(" ")[0]


def owner_of(offer: str) -> str:
    """A digest of whose it is, the same in all offers of that owner."""
    return offer.split(" ")[1]


def whose_of(offer: str) -> str:
    """How all offers begin that the same owner makes of the same tool."""
    return offer[: offer.rfind(" ") + 1]


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


class WorkerRecord(Struct):
    """A registered worker, as the ledger keeps it. `tools` are its definitions as JSON, `revision` is raised by each
    change of them."""

    tenant: str
    subject: str
    name: str
    tools: bytes
    revision: int = 0


class Heartbeat(Struct, frozen=True):
    """A sign of life from whoever works on a request; with an error, the end of that request."""

    heartbeat: float | None = None
    """The sender's own clock in milliseconds: stored and shown, and never used to judge anything."""
    error: ToolError | None = None


class Response(Struct, frozen=True):
    """The result of a request: all that stood in `response`, without its `state`."""

    result: dict[str, Any]


class Claim(Struct, frozen=True):
    """A worker's demand for up to `limit` requests of tools that match these patterns, for which it waits."""

    tools: tuple[str, ...] = ()
    """None: of any tool."""
    limit: int = 1
    wait_s: float = 0.0


class Renewal(Struct, frozen=True):
    """The heartbeat for one claimed request; a worker sends those of all its requests together."""

    session: str
    request: str
    attempt: int
    progress: dict[str, Any] | None = None


class Claimed(Struct, frozen=True):
    """A request that a worker has claimed, with all that it needs to run the tool."""

    session: str
    request: str
    tool: str
    """A worker's tool by its reference, with the version; a session's tool by its name."""
    input: dict[str, Any]
    attempt: int
    lease_s: float
    context: CallContext = NO_CONTEXT
    caller: Caller = Caller("default", "")
    """The caller whose call it is."""
    trace_id: str | None = None


class RenewalAnswer(Struct, frozen=True):
    """The server's answer to one `Renewal`: 200, 404 or 409 as an HTTP heartbeat would get, and the reason."""

    request: str
    status: int
    reason: str | None = None


class Registration(Struct, frozen=True):
    """The server's answer to a worker that registered: the references of its tools, which stay in the catalogue for the
    length of the lease, and longer with each heartbeat."""

    tools: tuple[str, ...]
    lease_s: float


class ToolDefinition(Struct, frozen=True):
    """A tool that a worker offers, as the worker describes it."""

    id: str
    version: str = "1.0.0"
    wire_name: str | None = None
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = {}
    requirements: Requirements = Requirements()
    title: str | None = None
    timeout: float | None = None
    on_lost: str = "unknown"
    read_only: bool = False
    idempotent: bool = False
    toolkit_description: str = ""
    returns_content: bool = False
    task: TaskUse = "optional"
    destructive: bool | None = None
    open_world: bool | None = None
    tags: tuple[str, ...] = ()
    approval: bool = False
    """Whether a person has to agree to each call of it."""
