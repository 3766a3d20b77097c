"""`tools/call`: a call that is answered at once, told of while it runs, asked about, or handed out as a task.

A request becomes an `McpCall`, which goes through the intake as calls of every wire do. What is MCP's own is here:
names of tools, tasks of two eras, questions that a call puts to its client, and where a person has to go first. A
request that hands back answers (`requestState`) is no new call: that is taken up in `resumed_calls.py`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import UNSET, Struct

from ....catalogue import Catalogue, CatalogueChange
from ....engine.account_wait import asked_for
from ....engine.engine import Engine
from ....engine.node import Node
from ....model.call import CALL_ID_FORM, LONGEST_TRACE_ID, NO_CONTEXT, CallContext, CallTool, Outcome, is_call_id
from ....model.caller import Caller
from ....model.channel import LedgerChannel, Question
from ....model.errors import (
    Busy,
    Forbidden,
    InvalidInput,
    Missing,
    MissingRequirements,
    Problem,
    StillRunning,
    ToolNotFound,
    ToolyardError,
)
from ....model.lifecycle import ENDED, WaitingFor
from ....model.tool import Tool
from ....trust.access.access import refuse_lacking
from ....trust.approvals.rules import waits
from ....wires.mcp.envelope import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    URL_ELICITATION_REQUIRED,
    RpcError,
)
from ....wires.mcp.headers import check_parameters
from ....wires.mcp.outcomes import encode_failure, encode_outcome, encode_plain
from ....wires.mcp.params import TASKS, CallMessage, CallParams, Meta, decode_params, meta_along, meta_in
from ....wires.mcp.questions import can_answer, elicitations, encode_input_required, missing_capabilities
from ....wires.mcp.tasks import encode_created
from ....wires.model_text import ModelText
from ...intake.intake import ACCEPTED, Answered, Intake
from ...intake.witness import RequestOrigin
from ...wire_check import headers_of
from ..protocol.channel import McpChannel
from ..protocol.peer import McpRequest, Peer
from ..protocol.question_ids import QuestionIds
from ..protocol.request_state import States, digest_of
from .resources import FAMILY, GivenResources
from .resumed_calls import Following

LONGEST_NAME = 256
"""Of a tool that is not there, in the audit log."""
_NO_META = Meta()


class CallParts(Struct, frozen=True):
    """What `tools/call` is made of, and whom it tells of what it did."""

    intake: Intake
    engine: Engine
    catalogue: Catalogue
    node: Node
    states: States
    given: GivenResources
    following: Following
    telling: ModelText
    ids: QuestionIds
    ttl_ms: int
    """How long a task is said to be kept."""
    on_task: Callable[[int, Peer], None]
    """Is told of each task of the older era: its number in the ledger, and whose it is."""
    on_sent: Callable[[Missing, str, Peer], None]
    """Is told where a client of the older era has to send its person."""


class Calling:
    """The method `tools/call`, and what the other methods and the transports ask about tools."""

    def __init__(self, parts: CallParts) -> None:
        self.intake, self._engine, self._catalogue, self._node = (
            parts.intake, parts.engine, parts.catalogue, parts.node,
        )  # fmt: skip
        self._store, self._states, self._ttl_ms = parts.node.store, parts.states, parts.ttl_ms
        self._given, self._telling, self.following = parts.given, parts.telling, parts.following
        self._ids = parts.ids
        self._on_task, self._on_sent = parts.on_task, parts.on_sent
        self._takes_meta = parts.engine.plans.takes_meta
        self._headers: dict[Tool, dict[str, tuple[str, ...]]] = {}
        """Which of their arguments are repeated in headers, of tools that were called."""
        parts.catalogue.subscribe(self._forget)

    def call(self, request: McpRequest) -> Coroutine[Any, Any, bytes]:
        """Raises RpcError, at once or when awaited. No coroutine of its own around the intake's."""
        message, caller = request.message, request.peer.caller
        params = message.params if type(message) is CallMessage else decode_params(message, CallParams)
        meta = _NO_META if params.meta is UNSET else params.meta
        tool = self._catalogue.named(params.name, caller.view)
        if tool is not None and (headers := request.headers) is not None:
            self._check_mirrored(tool, params.arguments, headers)
        command = _command(params, meta)
        if tool is not None and tool.offer is not None and meta is not _NO_META and self._takes_meta(tool):
            command.meta = meta_along(meta_in(request.body))
        call = McpCall(
            request,
            self._telling,
            self._ids,
            asyncio.get_running_loop(),
            None if meta.progress_token is UNSET else meta.progress_token,
            calling=self,
            params=params,
            meta=meta,
            command=command,
            caller=caller,
            tool=tool,
        )
        return self.intake.call(call) if params.state is UNSET else self._resumed(call, params.state)

    def _check_mirrored(self, tool: Tool, arguments: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
        """Raises RpcError where headers have to repeat the tool's arguments, and do not."""
        mirrored = self._headers.get(tool)
        if mirrored is None:
            mirrored = self._headers[tool] = headers_of(tool)
        if mirrored:
            check_parameters(headers, mirrored, arguments)

    async def _resumed(self, call: "McpCall", state: str) -> bytes:
        """A call that passed the intake with an earlier request, and waits for the answers that this one brings."""
        try:
            tool = call.resolve(self._engine)
        except (RpcError, Forbidden) as error:
            await self.intake.refused(call, error)
            raise
        return await self.following.resumed(tool, call.params, state, call.request, call)

    def _forget(self, change: CatalogueChange) -> None:
        for tool in change.removed:
            self._headers.pop(tool, None)

    # -- a call that asks, or takes long -----------------------------------------------------------

    def put(self, seq: int, call: "McpCall", tool: Tool) -> None:
        """The newer era: the request is answered with what its call asks."""
        self._node.beside(self._put(seq, call, tool))

    async def _put(self, seq: int, call: "McpCall", tool: Tool) -> None:
        """The answers may have come meanwhile, perhaps with this very request."""
        peer, row = call.request.peer, await self._store.row(seq)
        questions = [] if row is None else await self._engine.questions.open(row, peer.caller)
        if row is not None and questions:
            await self.intake.note_early(row, peer.caller, call.origin, "input_required")
            state = self._states.make(row, peer.caller, digest_of(tool.id, call.params, peer.caller), questions)
            call.request.outlet.respond(encode_input_required(questions, state, peer.revision))

    def hand_out(self, call_id: str, call: "McpCall", tool: Tool) -> None:
        """A call that takes long becomes a task, for who can have one."""
        if call.request.peer.has_tasks and tool.task != "forbidden":
            self._node.beside(self._hand_out(call_id, call))

    async def _hand_out(self, call_id: str, call: "McpCall") -> None:
        peer = call.request.peer
        if await self.intake.note_still_running(call, call_id):
            call.request.outlet.respond(await self._created(peer, call_id))

    def encode(self, tool: Tool | None, call: "McpCall", outcome: Outcome) -> bytes | Coroutine[Any, Any, bytes]:
        """The result of a call, and what can be read again of it is kept."""
        peer = call.request.peer
        if peer.has_tasks and isinstance(outcome.error, StillRunning):
            return self._created(peer, outcome.call_id)
        if tool is not None:
            self._given.keep(tool, outcome, peer.caller, call.command.context.user_id or peer.caller.user)
            said = () if outcome.error is not None else (outcome.value, outcome.extra)
            if any(each is not None and self._telling.may_cut(each) for each in said):
                return self._cut(tool, call, outcome)
        return encode_outcome(tool, outcome, peer.revision, self._telling)

    async def _cut(self, tool: Tool, call: "McpCall", outcome: Outcome) -> bytes:
        """A result that is too long for a model says where all of it can be read, so it has to be in the ledger."""
        is_kept = await self._engine.kept(tool, call.command, call.caller, outcome)
        return encode_outcome(tool, outcome, call.request.peer.revision, self._telling, is_kept=is_kept)

    def encode_error(self, tool: Tool | None, error: ToolyardError, peer: Peer) -> bytes:
        """What a model can act on is a result; anything else is raised, for the transport to encode."""
        if isinstance(error, MissingRequirements) and tool is not None:
            return self._missing(tool, error, peer)
        if isinstance(error, InvalidInput | Busy):
            return encode_failure(error, peer.revision, self._telling)
        raise error

    # -- tasks -------------------------------------------------------------------------------------

    async def start_task(self, tool: Tool, call: "McpCall") -> Answered[bytes]:
        """The client is given a task at once, and the call runs by itself."""
        command, peer = call.command, call.request.peer
        command.wire = "mcp-task"
        seq = await self._engine.start(tool, command, peer.caller, TaskChannel(peer), call.request.base_url)
        row = await self._store.row(seq)
        if row is None:
            raise RpcError(INVALID_PARAMS, "The task is no longer kept")
        if not peer.revision.is_modern:
            self._on_task(seq, peer)
        return Answered(encode_created(row, peer.revision, self._ttl_ms), ACCEPTED, row.key.call_id)

    async def _created(self, peer: Peer, call_id: str) -> bytes:
        call = await self._store.get(peer.caller.tenant, peer.caller.subject, call_id, FAMILY)
        if call is None:
            raise RpcError(INVALID_PARAMS, "The task is no longer kept")
        return encode_created(self._telling.record(call), peer.revision, self._ttl_ms)

    def _missing(self, tool: Tool, error: MissingRequirements, peer: Peer) -> bytes:
        """What a person has to do first: over the protocol where the client can, else as text. What waits for approval
        is not up to the client's person, and waits already: it is never said to be impossible."""
        questions = [
            Question(each.id, "url", asked_for(tool.id, each) or waits(tool.id), url=each.url)
            for each in error.missing.authorization
        ]
        if not questions or not can_answer(peer.capabilities, "url"):
            if questions and peer.revision.is_modern and not error.missing.approval:
                raise missing_capabilities(["url"], str(error), elicitations(questions))
            return encode_failure(error, peer.revision, self._telling)
        if peer.revision.is_modern:
            return encode_input_required(questions, None, peer.revision)
        self._on_sent(error.missing, tool.reference, peer)
        raise RpcError(URL_ELICITATION_REQUIRED, error.message, elicitations(questions), status=200)


class McpCall(McpChannel, eq=False, kw_only=True):
    """One `tools/call` request: what the intake is handed (a `WireCall`), and the call's channel to its client. Both
    are one object, because each call makes one."""

    calling: Calling
    params: CallParams
    meta: Meta
    command: CallTool
    caller: Caller
    tool: Tool | None
    """The one that has the name, if it is there for the caller; then the version that is meant."""

    @property
    def origin(self) -> RequestOrigin:
        return self.request.origin

    # -- for the intake ----------------------------------------------------------------------------

    def resolve(self, engine: Engine) -> Tool:
        """By its wire name or its id. Raises RpcError, and Forbidden where the caller's credentials are not for it."""
        tool, version = self.tool, self.meta.tool_version
        if tool is not None and version is UNSET:
            refuse_lacking(tool, self.caller)
        else:
            tool = self.tool = self._resolved(engine, self.params.name if tool is None else tool.id)
        self.command.tool_id = tool.id if version is UNSET else f"{tool.id}@{version}"
        return tool

    def _resolved(self, engine: Engine, id: str) -> Tool:
        version = self.meta.tool_version
        try:
            return engine.resolve(id if version is UNSET else f"{id}@{version}", self.caller)
        except ToolNotFound as error:
            raise self._unknown(error, id) from None

    def _unknown(self, error: ToolNotFound, id: str) -> RpcError:
        why = f" ({error.developer_message})" if "." in id else ""
        return RpcError(INVALID_PARAMS, f"Unknown tool: {self.params.name[:200]}{why}")

    def run(self, engine: Engine, tool: Tool) -> Coroutine[Any, Any, Outcome | Answered[bytes]]:
        command, params, request = self.command, self.params, self.request
        peer = request.peer
        if tool.asks and (lacking := [kind for kind in tool.asks if not can_answer(peer.capabilities, kind)]):
            raise missing_capabilities(lacking)
        if tool.hidden:
            command.input = _with_hidden(tool, command.input, self.meta)
        may_be_task = peer.has_tasks or params.task is not UNSET or tool.task == "required"
        if may_be_task and _is_task(tool, params, peer):
            return self.calling.start_task(tool, self)
        command.is_patient = not peer.has_tasks
        if command.call_id is not None and engine.plans.can_ask(tool):
            return self._join_or_run(engine, tool)
        return engine.call(tool, command, self.caller, self, request.base_url)

    async def _join_or_run(self, engine: Engine, tool: Tool) -> Outcome | Answered[bytes]:
        """Whoever joins a call that runs hears what it asks, which the engine's own joining would not pass on."""
        known = await engine.known(self.command, self.caller)
        if known is not None and known.state not in ENDED and known.waiting_for != WaitingFor.APPROVAL:
            engine.joined_by(known, self)
            joined = self.calling.following.joined(tool, known, self.params, self.request, self)
            return Answered(await joined)
        del known  # its result may be large, and is read again
        return await engine.call(tool, self.command, self.caller, self, self.request.base_url)

    def encode(self, tool: Tool | None, outcome: Outcome) -> bytes | Coroutine[Any, Any, bytes]:
        is_recorded = self.command.call_id is not None
        if is_recorded and not self.request.may_keep(outcome.size):
            return self._encode_later(tool)
        return self._encoded(tool, outcome)

    async def _encode_later(self, tool: Tool | None) -> bytes:
        """In its turn, once the client has read enough. The ledger has the result: it is not kept meanwhile."""
        await self.request.read()
        encoded = self._encoded(tool, await self.calling.intake.again(self))
        return encoded if isinstance(encoded, bytes) else await encoded

    def _encoded(self, tool: Tool | None, outcome: Outcome) -> bytes | Coroutine[Any, Any, bytes]:
        if outcome.value is not None and outcome.extra is None and tool is not None and not tool.returns_content:
            value = bytes(outcome.value)
            if self.telling.lets_through(value):
                return encode_plain(tool, value, self.request.peer.revision)
        return self.calling.encode(tool, self, outcome)

    def encode_error(self, tool: Tool | None, error: ToolyardError) -> bytes:
        if isinstance(error, ToolNotFound):  # it was there when the request came
            raise self._unknown(error, self.params.name)
        return self.calling.encode_error(tool, error, self.request.peer)

    # -- for the call that runs --------------------------------------------------------------------

    def answer_with_questions(self, seq: int) -> None:
        if self.tool is not None:
            self.calling.put(seq, self, self.tool)

    def answer(self, outcome: Outcome) -> None:
        if self.tool is not None:
            self.calling.hand_out(outcome.call_id, self, self.tool)


class TaskChannel(LedgerChannel):
    """The channel of a call that became a task: nobody waits for it, and what it asks is found with the task."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def can_ask(self, kind: Any) -> bool:
        return can_answer(self._peer.capabilities, kind)


def _is_task(tool: Tool, params: CallParams, peer: Peer) -> bool:
    """Raises RpcError where the tool and the request do not agree about it."""
    if peer.revision.is_modern:
        if tool.task == "required" and not peer.has_tasks:
            raise needs_tasks()
        return peer.has_tasks and tool.task in ("preferred", "required")
    if not peer.revision.execution:
        return False
    is_asked = params.task is not UNSET
    if is_asked and tool.task == "forbidden":
        raise RpcError(METHOD_NOT_FOUND, f"{tool.wire_name} cannot be called as a task", status=200)
    if tool.task == "required" and not is_asked:
        raise RpcError(METHOD_NOT_FOUND, f"{tool.wire_name} must be called as a task", status=200)
    return is_asked


def needs_tasks() -> RpcError:
    wanted: Any = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return RpcError(MISSING_CAPABILITY, f"This needs a client that declares {TASKS}", wanted)


def _command(params: CallParams, meta: Meta) -> CallTool:
    """Raises RpcError for a key that cannot be one."""
    return CallTool(
        params.name[:LONGEST_NAME],  # the tool's id, as soon as that is found
        params.arguments,
        None if meta.call_id is UNSET else _checked_key(meta.call_id),
        None if meta.traceparent is UNSET else _trace_id(meta.traceparent),
        NO_CONTEXT if meta.user_id is UNSET else CallContext(user_id=meta.user_id),
        wire="mcp",
        family=FAMILY,
        answers={} if params.responses is UNSET else params.responses,
    )


def _with_hidden(tool: Tool, input: dict[str, Any], meta: Meta) -> dict[str, Any]:
    """A model must not fill these in; whoever runs it passes them beside the arguments."""
    if filled := [name for name in tool.hidden if name in input]:
        raise InvalidInput(tuple(Problem(name, "Is not for you to give; leave it out") for name in filled))
    given = {} if meta.arguments is UNSET else meta.arguments
    return {**input, **{name: given[name] for name in tool.hidden if name in given}}


def _trace_id(traceparent: str) -> str | None:
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) <= LONGEST_TRACE_ID else None


def _checked_key(key: str) -> str:
    if is_call_id(key):
        return key
    raise RpcError(INVALID_PARAMS, f"Invalid params: toolyard/callId must have {CALL_ID_FORM}")
