"""What whoever runs the server may do with the calls of all callers: list, show, cancel, settle.

Asked over `/v1/admin` or, where no server holds the ledger, directly: both ways end here.

`/v1/admin`: for the operator's own tools, which know its token from the file beside the ledger or from the
environment.

They are no part of the API, so the OpenAPI document does not have them. A caller's credentials do not open them, nor
does coming from this machine.
"""

from ...engine.wait import Wait, until_ended
from ...model.caller import caller_name, is_named
from ...model.errors import PathNotFound, Refused
from ...model.record import CallRecord, Ending
from ...store.contract import Store
from ...store.values import Filter
from ...wires.admin import calls as wire
from ...wires.contract import Reply
from ...wires.lifecycle.calls import LIFECYCLE
from ..http import query
from ..http.exchange import Exchange
from ..http.query import cursor
from ..http.routes import Route

AT_ONCE = 50
MOST_NAMED = 20
"""Callers that are named where an id is that of several. Nobody reads more."""


class CallAdmin:
    """`alone`: nobody else has the ledger, so what has not ended will not end while this waits."""

    def __init__(self, store: Store, *, alone: bool = False) -> None:
        self._store, self._alone = store, alone

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        return await self._store.listed(wanted)

    async def show(self, call_id: str, caller: str | None, wait: Wait | None = None) -> CallRecord:
        """Once it has ended or the time is up."""
        seq = await self._find(call_id, caller)
        if wait is None or self._alone:
            return await self._row(seq)
        call = await until_ended(self._store, seq, wait)
        if call is None:
            raise _absent()
        return call

    async def cancel(self, call_id: str, caller: str | None) -> CallRecord:
        """Whoever was first, the answer shows."""
        seq = await self._find(call_id, caller)
        await self._store.cancel(seq)
        return await self._row(seq)

    async def resolve(self, call_id: str, caller: str | None, ending: Ending | None) -> CallRecord:
        """Settles a call that ended as `outcome_unknown`: so, or by running it once more."""
        seq = await self._find(call_id, caller)
        resolved = await self._store.resolve(seq, ending)
        if resolved is not None:
            return resolved
        call = await self._row(seq)
        stands = call.state if call.code is None else f"{call.state} ({call.code})"
        raise Refused(f"The call is {stands}; only one that ended as outcome_unknown can be settled", call.state)

    async def _find(self, call_id: str, caller: str | None) -> int:
        """The newest of that id, which must be one caller's."""
        newest = await self._newest(call_id, caller)
        if not newest:
            raise _absent()
        if len(newest) > 1:
            callers = ", ".join(sorted(newest))
            raise Refused(f"Several callers have a call of this id: {callers}; say whose with --caller", "ambiguous")
        return next(iter(newest.values()))

    async def _newest(self, call_id: str, caller: str | None) -> dict[str, int]:
        """The number of each caller's newest call of that id, by the caller's name."""
        newest: dict[str, int] = {}
        before: int | None = None
        while len(newest) <= MOST_NAMED:
            page = await self._store.listed(Filter(None, call_id=call_id, before=before, limit=AT_ONCE))
            for call in page:
                whose = (call.key.tenant, call.key.subject)
                if caller is None or is_named(*whose, caller):
                    newest.setdefault(caller_name(*whose), call.seq)
            if len(page) < AT_ONCE:
                break
            before = page[-1].seq
        return newest

    async def _row(self, seq: int) -> CallRecord:
        call = await self._store.row(seq)
        if call is None:
            raise _absent()
        return call


def _absent() -> PathNotFound:
    return PathNotFound("There is no such call")


ONE = wire.PATH + "/{call_id}"


def routes(desk: CallAdmin) -> list[Route]:
    async def show_all(exchange: Exchange) -> Reply:
        limit = query.limit(exchange, 50)
        wanted = Filter(
            None, state=query.state(exchange), tool=query.text(exchange, "tool"), before=cursor(exchange), limit=limit
        )
        return wire.encode_calls(await desk.listed(wanted), limit)

    async def show(exchange: Exchange) -> Reply:
        return wire.encode_call(await desk.show(*_which(exchange), query.wait(exchange)))

    async def cancel(exchange: Exchange) -> Reply:
        return wire.encode_call(await desk.cancel(*_which(exchange)))

    async def resolve(exchange: Exchange) -> Reply:
        return wire.encode_call(await desk.resolve(*_which(exchange), wire.decode_settlement(exchange.body)))

    return [
        Route("GET", wire.PATH, show_all, LIFECYCLE, who="operator"),
        Route("GET", ONE, show, LIFECYCLE, who="operator"),
        Route("POST", f"{ONE}/cancel", cancel, LIFECYCLE, who="operator", seen_as="admin"),
        Route("POST", f"{ONE}/resolve", resolve, LIFECYCLE, reads_json=True, who="operator", seen_as="admin"),
    ]


def _which(exchange: Exchange) -> tuple[str, str | None]:
    return exchange.parameters["call_id"], query.text(exchange, "caller")
