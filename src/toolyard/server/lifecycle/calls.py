"""`/v1/calls`: a caller's own calls, whichever wire they came in on.

The id of a call with a key was chosen by somebody: two families of wires, or two sessions, may have used one id for two
calls. `family` says which is meant. Without it the newest is shown, and the others are named; cancelled is none.
"""

from collections.abc import Sequence

from ...engine.own_calls import OwnCalls
from ...engine.questions import Questions
from ...engine.wait import LOOK_AGAIN_S, Wait, holding
from ...model.caller import Caller
from ...model.errors import PathNotFound, Refused
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

AT_ONCE = 50
"""How many rows of the ledger are read at once while calls of one id are looked for."""
MOST_NAMED = 20
"""How many families are named where several have a call of that id. Nobody reads more."""


def routes(store: Store, own: OwnCalls, telling: ModelText, questions: Questions, replies: ReplyBudget) -> list[Route]:
    """A stranger's call and one that never was get the same answer."""

    async def show(exchange: Exchange) -> Reply:
        caller, family, wait = exchange.caller, query.text(exchange, "family"), query.wait(exchange)
        place = await replies.read(exchange)
        call = await found(own, caller, exchange.parameters["call_id"], family)
        if call.state not in ENDED and not wait.is_over:
            place.give()
            seq = call.seq
            del call  # its input may be large, and many may wait for it
            call = await _once_ended(exchange, seq, wait)
        others = [] if family is not None else await families(own, caller, call.key.call_id)
        others = [other for other in others if other != call.key.family]
        return LIFECYCLE.encode_call(telling.record(call), await questions.open(call, caller), others)

    async def show_all(exchange: Exchange) -> Reply:
        caller = exchange.caller
        limit = query.limit(exchange, 50)
        wanted = Filter(
            caller.tenant, caller.subject, query.state(exchange), query.text(exchange, "tool"), cursor(exchange), limit
        )
        return LIFECYCLE.encode_calls(list(map(telling.record, await own.listed(caller, wanted))), limit)

    async def _once_ended(exchange: Exchange, seq: int, wait: Wait) -> CallRecord:
        """Whoever waits looks at its state alone, and holds nothing of it; it is read whole once, in its turn."""

        async def came() -> bool:
            row = await store.glance(seq)
            if row is None:
                raise PathNotFound("There is no such call")
            return row.state in ENDED

        await holding(store, ((Topic.ENDED, seq),), wait, came, LOOK_AGAIN_S)
        await replies.read(exchange)
        call = await own.row(exchange.caller, seq)  # the rules may have taken the tool away meanwhile
        if call is None:
            raise PathNotFound("There is no such call")
        return call

    async def cancel(exchange: Exchange) -> Reply:
        """Whoever was first, the answer shows."""
        caller, family, call_id = exchange.caller, query.text(exchange, "family"), exchange.parameters["call_id"]
        if family is None and len(named := await families(own, caller, call_id)) > 1:
            raise several(named, "?family=")
        call = await found(own, caller, call_id, family)
        await store.cancel(call.seq)
        return LIFECYCLE.encode_call(telling.record(await store.row(call.seq) or call))

    return [
        Route("GET", "/v1/calls", show_all, LIFECYCLE),
        Route("GET", "/v1/calls/{call_id}", show, LIFECYCLE),
        Route("POST", "/v1/calls/{call_id}/cancel", cancel, LIFECYCLE, audit_as=AuditKind.CANCEL),
    ]


async def found(own: OwnCalls, caller: Caller, call_id: str, family: str | None = None) -> CallRecord:
    """A call of the caller's: the newest of that id, in one family or in any."""
    call = await own.get(caller, call_id, family)
    if call is None:
        raise PathNotFound("There is no such call")
    return call


async def families(own: OwnCalls, caller: Caller, call_id: str) -> list[str]:
    """In which families the caller has a call of that id, the newest first."""
    found: dict[str, None] = {}
    before: int | None = None
    while len(found) < MOST_NAMED:
        wanted = Filter(caller.tenant, caller.subject, call_id=call_id, before=before, limit=AT_ONCE)
        page = await own.listed(caller, wanted)
        found |= dict.fromkeys(call.key.family for call in page)
        if len(page) < AT_ONCE:
            break
        before = page[-1].seq
    return list(found)[:MOST_NAMED]


def several(families: Sequence[str], option: str) -> Refused:
    """For who means one of several calls and does not say which."""
    named = ", ".join(families)
    return Refused(f"Several calls have this id, in these families: {named}; say which with {option}", "ambiguous")
