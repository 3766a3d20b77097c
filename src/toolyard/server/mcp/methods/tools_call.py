"""`tools/call`: a call that is answered at once, told of while it runs, asked about, or handed out as a task."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import UNSET, Struct

from ....catalogue import Catalogue, CatalogueChange
from ....engine.account_wait import asked_for
from ....engine.engine import Engine
from ....engine.node import Node
from ....model.call import CALL_ID_FORM, NO_CONTEXT, CallContext, CallTool, Outcome, is_call_id
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
    Incoming,
    RpcError,
)
from ....wires.mcp.outcomes import encode_failure, encode_outcome
from ....wires.mcp.params import TASKS, CallParams, Meta, decode_params
from ....wires.mcp.questions import can_answer, elicitations, encode_input_required, missing_capabilities
from ....wires.mcp.tasks import encode_created
from ....wires.model_text import ModelText
from ...intake.readiness import Readiness
from ...intake.witness import CallOutcomeNote, Witness
from ...wire_check import headers_of
from ..protocol.channel import McpChannel
from ..protocol.peer import Outlet, Peer
from ..protocol.request_state import States, digest_of
from .resources import GivenResources
from .resumed_calls import Following

_NO_META = Meta()
_NOTHING: dict[str, tuple[str, ...]] = {}


class CallTiming(Struct, frozen=True):
    """How long a client waits before it is given a task, how long that is kept, the clock, and how text goes out."""

    sync_wait_s: float
    ttl_ms: int
    monotonic: Callable[[], float]
    telling: ModelText


class Calling:
    """Takes calls."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        node: Node,
        states: States,
        given: GivenResources,
        readiness: Readiness,
        witness: Witness,
        manner: CallTiming,
    ) -> None:
        self._engine, self._catalogue, self._node, self._states = engine, catalogue, node, states
        self._given = given
        self._readiness, self._witness, self._monotonic = readiness, witness, manner.monotonic
        self._store, self._ttl_ms, self._telling = node.store, manner.ttl_ms, manner.telling
        self.following = Following(engine, node, states, given, manner.sync_wait_s, manner.ttl_ms, manner.telling)
        self.when_task: Callable[[int, Peer], None] = lambda seq, peer: None
        """Wants to know of tasks of the older era."""
        self.when_sent: Callable[[Missing, Peer], None] = lambda missing, peer: None
        """Wants to know of what clients of the older era send their person to."""
        self._headers: dict[Tool, dict[str, tuple[str, ...]]] = {}
        """Which of their arguments are repeated in headers, of tools that were called."""
        catalogue.subscribe(self._forget)

    async def call(self, message: Incoming, peer: Peer, outlet: Outlet, base_url: Callable[[], str]) -> bytes:
        params = decode_params(message, CallParams)
        meta = _NO_META if params.meta is UNSET else params.meta
        try:
            tool = self.find(params.name, peer.caller, meta)
        except (RpcError, Forbidden) as error:
            await self._refused(params, peer, error)
            raise
        if params.state is not UNSET:
            make = partial(self._channel, tool, params, meta, peer, outlet)
            return await self.following.resumed(tool, params, params.state, peer, outlet, make)
        if tool.asks and (lacking := [kind for kind in tool.asks if not can_answer(peer.capabilities, kind)]):
            raise missing_capabilities(lacking)
        command, started, ended = self._command(tool, params, meta), self._monotonic(), CallOutcomeNote()
        self._witness.metrics.running += 1
        try:
            if self._readiness.status != "ok":
                raise self._readiness.refusal()
            if self._witness.is_strict:
                self._witness.ready()
            if tool.hidden:
                command.input = _with_hidden(tool, command.input, meta)
            if self._is_task(tool, params, peer):
                return await self._as_task(tool, command, peer, base_url, ended)
            command.is_patient = not peer.has_tasks
            channel = self._channel(tool, params, meta, peer, outlet)
            if command.call_id is not None and tool.runs == "inline":  # only such a tool can ask
                known = await self._engine.known(command, peer.caller)
                if known is not None and known.state not in ENDED and known.waiting_for != WaitingFor.APPROVAL:
                    return await self.following.joined(tool, known, params, peer, outlet, lambda: channel)
            outcome = await self._engine.call(tool, command, peer.caller, channel, base_url)
            ended.with_outcome(outcome)
        except (InvalidInput, Busy, MissingRequirements) as error:
            ended.with_error(error)
            if isinstance(error, MissingRequirements):
                return self._missing(tool, error, peer)
            return encode_failure(error, peer.revision, self._telling)
        except BaseException as error:
            ended.with_error(error)
            raise
        finally:
            self._witness.metrics.running -= 1
            self._witness.called(tool, command, peer.caller, peer, ended, self._monotonic() - started)
            if self._witness.is_strict:
                await self._witness.written()
        if peer.has_tasks and isinstance(outcome.error, StillRunning):
            return await self._created(peer, outcome.call_id)
        self._given.keep(tool, outcome, peer.caller)
        if outcome.value is not None and self._telling.may_cut(outcome.value):
            is_kept = await self._engine.kept(tool, command, peer.caller, outcome)
            return encode_outcome(tool, outcome, peer.revision, self._telling, is_kept=is_kept)
        return encode_outcome(tool, outcome, peer.revision, self._telling)

    async def _refused(self, params: CallParams, peer: Peer, error: ToolyardError) -> None:
        """Who asks for what is not there, or may not have it, is seen doing so."""
        command, ended = CallTool(params.name[:256], params.arguments, wire="mcp"), CallOutcomeNote()
        ended.with_error(error)
        self._witness.called(None, command, peer.caller, peer, ended, 0.0)
        await self._witness.written()

    def find(self, name: str, caller: Caller, meta: Meta = _NO_META) -> Tool:
        """By its wire name or its id. Raises RpcError, and Forbidden where the caller's credentials are not for it."""
        tool = self._catalogue.named(name, caller.view)
        if tool is not None and meta.tool_version is UNSET:
            refuse_lacking(tool, caller)
            return tool
        id = name if tool is None else tool.id
        try:
            return self._engine.resolve(id if meta.tool_version is UNSET else f"{id}@{meta.tool_version}", caller)
        except ToolNotFound as error:
            why = f" ({error.developer_message})" if "." in id else ""
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:200]}{why}") from None

    def mirrored(self, name: str, caller: Caller) -> Mapping[str, tuple[str, ...]]:
        """Which headers repeat the tool's arguments. A tool that is not there for the caller has none."""
        tool = self._catalogue.named(name)
        if tool is None or self._catalogue.named(name, caller.view) is None:
            return _NOTHING
        headers = self._headers.get(tool)
        if headers is None:
            headers = self._headers[tool] = headers_of(tool)
        return headers

    def _forget(self, change: CatalogueChange) -> None:
        for tool in change.removed:
            self._headers.pop(tool, None)

    # -- one call ----------------------------------------------------------------------------------

    def _command(self, tool: Tool, params: CallParams, meta: Meta) -> CallTool:
        return CallTool(
            tool.id if meta.tool_version is UNSET else f"{tool.id}@{meta.tool_version}",
            params.arguments,
            None if meta.call_id is UNSET else _checked_key(meta.call_id),
            _trace_id(meta),
            NO_CONTEXT if meta.user_id is UNSET else CallContext(user_id=meta.user_id),
            wire="mcp",
            family="mcp",
            answers={} if params.responses is UNSET else params.responses,
        )

    def _channel(self, tool: Tool, params: CallParams, meta: Meta, peer: Peer, outlet: Outlet) -> McpChannel:
        token = None if meta.progress_token is UNSET else meta.progress_token
        return McpChannel(peer, outlet, token, CallHooks(self, tool, params), self._telling)

    def put(self, seq: int, request: "CallHooks", peer: Peer, outlet: Outlet) -> None:
        """The newer era: the request is answered with what is asked."""
        self._node.beside(self._put(seq, request, peer, outlet))

    async def _put(self, seq: int, request: "CallHooks", peer: Peer, outlet: Outlet) -> None:
        """The answers may have come meanwhile, perhaps with this very request."""
        call = await self._store.row(seq)
        questions = [] if call is None else await self._engine.questions.open(call, peer.caller)
        if call is not None and questions:
            if self._witness.is_strict:
                await self._witness.told_early(call, peer.caller, peer, "input_required")
            request_digest = digest_of(request.tool.id, request.params.arguments)
            state = self._states.make(call, peer.caller, request_digest, questions)
            outlet.respond(encode_input_required(questions, state, peer.revision))

    def hand_out(self, call_id: str, tool: Tool, peer: Peer, outlet: Outlet) -> None:
        """A call that takes long becomes a task, for who can have one."""
        if peer.has_tasks and tool.task != "forbidden":
            self._node.beside(self._hand_out(peer, call_id, outlet))

    async def _hand_out(self, peer: Peer, call_id: str, outlet: Outlet) -> None:
        if self._witness.is_strict and (call := await self._engine.recorded_call(peer.caller, call_id)) is not None:
            await self._witness.told_early(call, peer.caller, peer, "still_running")
        outlet.respond(await self._created(peer, call_id))

    # -- tasks -------------------------------------------------------------------------------------

    def _is_task(self, tool: Tool, params: CallParams, peer: Peer) -> bool:
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

    async def _as_task(
        self, tool: Tool, command: CallTool, peer: Peer, base_url: Callable[[], str], ended: CallOutcomeNote
    ) -> bytes:
        command.wire = "mcp-task"
        seq = await self._engine.start(tool, command, peer.caller, TaskChannel(peer), base_url)
        call = await self._store.row(seq)
        if call is None:
            raise RpcError(INVALID_PARAMS, "The task is no longer kept")
        ended.code, ended.call_id = "accepted", call.key.call_id
        if not peer.revision.is_modern:
            self.when_task(seq, peer)
        return encode_created(call, peer.revision, self._ttl_ms)

    async def _created(self, peer: Peer, call_id: str) -> bytes:
        call = await self._store.get(peer.caller.tenant, peer.caller.subject, call_id)
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
        self.when_sent(error.missing, peer)
        raise RpcError(URL_ELICITATION_REQUIRED, error.message, elicitations(questions), status=200)


class CallHooks(Struct):
    """One request, for its channel."""

    calling: Calling
    tool: Tool
    params: CallParams

    def put(self, seq: int, peer: Peer, outlet: Outlet) -> None:
        self.calling.put(seq, self, peer, outlet)

    def is_slow(self, outcome: Outcome, peer: Peer, outlet: Outlet) -> None:
        self.calling.hand_out(outcome.call_id, self.tool, peer, outlet)


class TaskChannel(LedgerChannel):
    """Of a task: nobody waits for it, and what it asks is found with it."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def can_ask(self, kind: Any) -> bool:
        return can_answer(self._peer.capabilities, kind)


def needs_tasks() -> RpcError:
    wanted: Any = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return RpcError(MISSING_CAPABILITY, f"This needs a client that declares {TASKS}", wanted)


def _with_hidden(tool: Tool, input: dict[str, Any], meta: Meta) -> dict[str, Any]:
    """A model must not fill these in; whoever runs it passes them beside the arguments."""
    if filled := [name for name in tool.hidden if name in input]:
        raise InvalidInput(tuple(Problem(name, "Is not for you to give; leave it out") for name in filled))
    given = {} if meta.arguments is UNSET else meta.arguments
    return {**input, **{name: given[name] for name in tool.hidden if name in given}}


def _trace_id(meta: Meta) -> str | None:
    parts = [] if meta.traceparent is UNSET else meta.traceparent.split("-")
    return parts[1] if len(parts) == 4 else None


def _checked_key(key: str) -> str:
    if is_call_id(key):
        return key
    raise RpcError(INVALID_PARAMS, f"Invalid params: toolyard/callId must have {CALL_ID_FORM}")
