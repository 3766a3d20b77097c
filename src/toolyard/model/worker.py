"""What callers say in the lifecycle API, in no JSON's words."""

from typing import Any

from msgspec import Struct

from .call import NO_CONTEXT, CallContext
from .caller import Caller
from .errors import ToolError
from .tool import Requirements, TaskUse


class WorkerRecord(Struct):
    """Somebody elsewhere who runs tools: `tools` are their definitions, as JSON."""

    tenant: str
    subject: str
    name: str
    tools: bytes
    revision: int = 0
    """Raised by each change of its tools."""


class Heartbeat(Struct, frozen=True):
    """Somebody works on a request; or, with an error, has failed at it."""

    heartbeat: float | None = None
    error: ToolError | None = None


class Response(Struct, frozen=True):
    """A request's result: what stood in `response`, without its state."""

    result: dict[str, Any]


class Claim(Struct, frozen=True):
    """Give me work."""

    tools: tuple[str, ...] = ()
    limit: int = 1
    wait_s: float = 0.0


class Renewal(Struct, frozen=True):
    """One heartbeat of many."""

    session: str
    request: str
    attempt: int
    progress: dict[str, Any] | None = None


class Claimed(Struct, frozen=True):
    """Work that a server gave out."""

    session: str
    request: str
    tool: str
    """A worker's tool with its version, a session's by its name."""
    input: dict[str, Any]
    attempt: int
    lease_s: float
    context: CallContext = NO_CONTEXT
    caller: Caller = Caller("default", "")
    """Whose call it is."""
    trace_id: str | None = None


class RenewalAnswer(Struct, frozen=True):
    """What became of one heartbeat of many: 200, 404 or 409, and why."""

    request: str
    status: int
    reason: str | None = None


class Registration(Struct, frozen=True):
    """A worker's tools are in the catalogue, for so long unless it is heard of again."""

    tools: tuple[str, ...]
    lease_s: float


class ToolDefinition(Struct, frozen=True):
    """A tool that a worker offers."""

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
