"""`tasks/*`: calls of the ledger under another name. Any node serves them."""

from collections import OrderedDict
from functools import partial

import msgspec
from msgspec import UNSET

from ....catalogue import Catalogue
from ....engine.own_calls import OwnCalls
from ....engine.questions import Questions
from ....model.channel import Question
from ....model.errors import ToolNotFound
from ....model.json_value import decode
from ....model.lifecycle import ENDED, WaitingFor
from ....model.record import CallRecord
from ....model.tool import Tool
from ....store.contract import Store
from ....store.values import Filter
from ....text import base64url
from ....trust.audit.entry import AuditKind
from ....wires.mcp.envelope import INTERNAL_ERROR, INVALID_PARAMS, RpcError, encode_request
from ....wires.mcp.outcomes import encode_outcome
from ....wires.mcp.params import RELATED_TASK, OfTask, PageParams, decode_params
from ....wires.mcp.questions import encode_question
from ....wires.mcp.revisions import Revision
from ....wires.mcp.tasks import encode_listed, encode_task, status_of
from ....wires.model_text import ModelText
from ...intake.witness import Witness
from ..protocol.peer import McpRequest, Peer
from .resources import FAMILY
from .resumed_calls import Following
from .tools_call import needs_tasks

MOST_LISTED = 100
MOST_TOLD = 10_000
_encode = msgspec.json.Encoder().encode


class Tasks:
    """The methods about tasks. A task is a call in the ledger, so nothing is kept here but what each was last shown to
    wait for."""

    def __init__(
        self,
        store: Store,
        own: OwnCalls,
        catalogue: Catalogue,
        following: Following,
        questions: Questions,
        witness: Witness,
        ttl_ms: int,
        telling: ModelText,
    ) -> None:
        self._telling = telling
        self._witness, self._own = witness, own
        self._store, self._catalogue, self._following, self._questions = store, catalogue, following, questions
        self._ttl_ms = ttl_ms
        self._told: OrderedDict[int, str | None] = OrderedDict()
        """What each task waited for when it was last shown."""

    async def get(self, request: McpRequest) -> bytes:
        """Whoever was told that the task waits for a person, and asks again, is told when it no longer does, or after a
        while: people take longer than clients have patience to ask."""
        place = await request.read()
        call = await self._find(request)
        if call.waiting_for in (WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION) and self._was_told(call):
            place.give()
            await self._following.until_decided(call, request.outlet)
            call = await self._read_again(call.seq, request)
        return await self.shown(call, request.peer)

    def _was_told(self, call: CallRecord) -> bool:
        """Whether somebody was, of what it waits for, before this time."""
        told = self._told.pop(call.seq, None)
        self._told[call.seq] = call.waiting_for
        if len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)
        return told == call.waiting_for

    async def shown(self, call: CallRecord, peer: Peer) -> bytes:
        result = self.result_of(call, peer.revision) if call.state in ENDED else None
        questions = await self._questions.open(call, peer.caller)
        return encode_task(self._telling.record(call), peer.revision, self._ttl_ms, questions, result)

    async def update(self, request: McpRequest) -> bytes:
        """Answers what the task asks."""
        call = await self._find(request)
        params = decode_params(request.message, OfTask)
        if params.responses is UNSET:
            raise RpcError(INVALID_PARAMS, "Invalid params: inputResponses is missing")
        await self._following.answer(call, params.responses)
        return b'{"resultType":"complete",%b}' % request.peer.revision.meta

    async def cancel(self, request: McpRequest) -> bytes:
        call, peer = await self._find(request), request.peer
        if not peer.revision.is_modern and call.state in ENDED:
            status = status_of(call)
            raise RpcError(INVALID_PARAMS, f"Cannot cancel task: already in terminal status '{status}'", status=200)
        await self._store.cancel(call.seq)
        self._witness.did(AuditKind.CANCEL, f"tasks/cancel {call.key.call_id}", peer.caller, request.origin.address)
        await self._witness.written()
        if peer.revision.is_modern:
            return b'{"resultType":"complete",%b}' % peer.revision.meta
        return await self.shown(await self._store.row(call.seq) or call, peer)

    async def list(self, request: McpRequest) -> bytes:
        params = decode_params(request.message, PageParams)
        before = None if params.cursor is UNSET else _decoded(params.cursor)
        caller = request.peer.caller
        wanted = Filter(caller.tenant, caller.subject, before=before, limit=MOST_LISTED + 1, wire="mcp-task")
        calls = await self._own.listed(caller, wanted)
        shown = calls[:MOST_LISTED]
        cursor = _encoded(shown[-1].seq) if len(calls) > MOST_LISTED else None
        return encode_listed(list(map(self._telling.record, shown)), request.peer.revision, self._ttl_ms, cursor)

    async def result(self, request: McpRequest) -> bytes:
        """2025-11-25: waits for the end, and meanwhile puts what the task asks."""
        place, peer = await request.read(), request.peer
        call = await self._find(request)
        if call.state not in ENDED:
            place.give()
            put = partial(self._put, call=call, request=request)
            await self._following.until_ended(call, request.outlet, put, peer)
            call = await self._read_again(call.seq, request)
        if status_of(call) in ("failed", "cancelled"):
            raise RpcError(INTERNAL_ERROR, _why(self._telling.record(call)), status=200)
        made = decode(self.result_of(call, peer.revision))
        return _encode({**made, "_meta": {**made.get("_meta", {}), RELATED_TASK: {"taskId": call.key.call_id}}})

    async def _read_again(self, seq: int, request: McpRequest) -> CallRecord:
        """A call that was waited for, together with others perhaps: its result may be large, and is kept for those
        alone who have a place."""
        await request.read()
        call = await self._own.row(request.peer.caller, seq)
        if call is None:
            raise _absent(decode_params(request.message, OfTask).id)
        return call

    def _put(self, question: Question, call: CallRecord, request: McpRequest) -> None:
        peer = request.peer
        id = self._following.ids.id_of(call.seq, question.name, peer)
        method, params = encode_question(question, peer.revision, id)
        related = {"_meta": {RELATED_TASK: {"taskId": call.key.call_id}}}
        request.outlet.send(encode_request(id, method, {**params, **related}))

    def result_of(self, call: CallRecord, revision: Revision) -> bytes:
        """What the call would have been answered with."""
        return encode_outcome(self._tool(call), call.outcome(), revision, self._telling)

    def _tool(self, call: CallRecord) -> Tool | None:
        try:
            return self._catalogue.resolve(call.reference)
        except ToolNotFound:
            return None

    async def _find(self, request: McpRequest) -> CallRecord:
        """Raises RpcError. What is another caller's looks like what is not there."""
        peer = request.peer
        if peer.revision.is_modern and not peer.has_tasks:
            raise needs_tasks()
        params = decode_params(request.message, OfTask)
        call = await self.find(params.id, peer)
        if call is None:
            raise _absent(params.id)
        return call

    async def find(self, id: str, peer: Peer) -> CallRecord | None:
        """The caller's call over MCP of that id. A call of that id over another wire is no task, whoever chose it."""
        return await self._own.get(peer.caller, id, FAMILY)


def _absent(id: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Task not found: {id[:200]}", status=400)


def _why(call: CallRecord) -> str:
    error = call.outcome().error
    return error.message if error is not None else f"The task ended as {call.state.value.lower()}"


def _encoded(seq: int) -> str:
    return base64url.encoded(b"%d" % seq)


def _decoded(cursor: str) -> int:
    try:
        seq = int(base64url.decoded(cursor))
    except ValueError:
        seq = 0
    if not (0 < seq < 2**63 and _encoded(seq) == cursor):
        raise RpcError(INVALID_PARAMS, "Invalid params: this cursor is not one that this server gave out")
    return seq
