"""`/v1/calls`: a caller's own calls, whichever wire they came in on."""

from ...engine.questions import Questions
from ...engine.wait import LOOK_AGAIN_S, Wait, holding
from ...model.caller import Caller
from ...model.errors import PathNotFound
from ...model.lifecycle import ENDED
from ...model.record import CallRecord
from ...store.contract import Store
from ...store.hints import Topic
from ...store.values import Filter
from ...trust.audit.entry import AuditKind
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.model_text import ModelText
from ..http import query
from ..http.exchange import Exchange
from ..http.query import cursor
from ..http.reply_budget import ReplyBudget
from ..http.routes import Route


def routes(store: Store, telling: ModelText, questions: Questions, replies: ReplyBudget) -> list[Route]:
    """A stranger's call and one that never was get the same answer."""

    async def show(exchange: Exchange) -> Reply:
        caller, wait = exchange.caller, query.wait(exchange)
        place = await replies.read(exchange)
        call = await found(store, caller, exchange.parameters["call_id"])
        if call.state not in ENDED and not wait.is_over:
            place.give()
            call = await _once_ended(exchange, call, wait)
        return LIFECYCLE.encode_call(telling.record(call), await questions.open(call, caller))

    async def show_all(exchange: Exchange) -> Reply:
        caller = exchange.caller
        limit = query.limit(exchange, 50)
        wanted = Filter(
            caller.tenant, caller.subject, query.state(exchange), query.text(exchange, "tool"), cursor(exchange), limit
        )
        return LIFECYCLE.encode_calls(list(map(telling.record, await store.listed(wanted))), limit)

    async def _once_ended(exchange: Exchange, call: CallRecord, wait: Wait) -> CallRecord:
        """Each look at it is a read of its own: its result may be large, and many may wait for it."""

        async def came() -> bool:
            nonlocal call
            place = await replies.read(exchange)
            row = await store.row(call.seq)
            if row is None:
                raise PathNotFound("There is no such call")
            call = row
            if call.state not in ENDED:
                place.give()
            return call.state in ENDED

        await holding(store, ((Topic.ENDED, call.seq),), wait, came, LOOK_AGAIN_S)
        return call

    async def cancel(exchange: Exchange) -> Reply:
        """Whoever was first, the answer shows."""
        caller = exchange.caller
        call = await found(store, caller, exchange.parameters["call_id"])
        await store.cancel(call.seq)
        return LIFECYCLE.encode_call(telling.record(await store.row(call.seq) or call))

    return [
        Route("GET", "/v1/calls", show_all, LIFECYCLE),
        Route("GET", "/v1/calls/{call_id}", show, LIFECYCLE),
        Route("POST", "/v1/calls/{call_id}/cancel", cancel, LIFECYCLE, audit_as=AuditKind.CANCEL),
    ]


async def found(store: Store, caller: Caller, call_id: str) -> CallRecord:
    """A call of the caller's."""
    call = await store.get(caller.tenant, caller.subject, call_id)
    if call is None:
        raise PathNotFound("There is no such call")
    return call
