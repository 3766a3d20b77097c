"""Calls of all callers, for operators: list them, show one, cancel one, and settle one whose outcome nobody knows."""

from ...engine.wait import Wait, until_ended
from ...model.caller import caller_name, is_named
from ...model.errors import PathNotFound, Refused
from ...model.record import CallRecord, Ending
from ...store.contract import Store
from ...store.values import Filter
from ...trust.audit.entry import AuditKind
from ...wires.admin import calls as wire
from ...wires.contract import Reply
from ..http import query
from ..http.exchange import Exchange
from ..lifecycle.calls import AT_ONCE, MOST_NAMED, several
from .operation import Operation, OperatorParts

ONE = wire.PATH + "/{call_id}"


class CallAdmin:
    """What an operator can do with calls, whoever made them. A call is named by the id that its caller gave it, by the
    caller where several have used that id, and by its family where one caller has used it in several. `is_alone`:
    nobody else has the ledger, so a call that has not ended does not end while somebody waits for it."""

    def __init__(self, store: Store, *, is_alone: bool = False) -> None:
        self._store, self._is_alone = store, is_alone

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        return await self._store.listed(wanted)

    async def show(self, which: wire.WhichCall, wait: Wait | None = None) -> tuple[CallRecord, list[str]]:
        """The call, once it has ended or the time is up: of several families the newest, and the others. Raises
        PathNotFound."""
        (_, seq), *others = (await self._find(which)).items()
        if wait is None or self._is_alone:
            return await self._row(seq), [family for family, _ in others]
        call = await until_ended(self._store, seq, wait)
        if call is None:
            raise _absent()
        return call, [family for family, _ in others]

    async def cancel(self, which: wire.WhichCall) -> CallRecord:
        """The call after that: cancelled, or as it had ended before. Raises PathNotFound."""
        seq = await self._find_one(which)
        await self._store.cancel(seq)
        return await self._row(seq)

    async def resolve(self, which: wire.WhichCall, ending: Ending | None) -> CallRecord:
        """Settles a call that ended as `outcome_unknown`: with `ending`, or without one by running it once more. Raises
        Refused for any other call."""
        seq = await self._find_one(which)
        resolved = await self._store.resolve(seq, ending)
        if resolved is not None:
            return resolved
        call = await self._row(seq)
        stands = call.state if call.code is None else f"{call.state} ({call.code})"
        raise Refused(f"The call is {stands}; only one that ended as outcome_unknown can be settled", call.state)

    async def _find_one(self, which: wire.WhichCall) -> int:
        """The number of the call that is meant. Raises PathNotFound, and Refused where it can be one of several."""
        found = await self._find(which)
        if len(found) > 1:
            raise several(list(found), "--family")
        return next(iter(found.values()))

    async def _find(self, which: wire.WhichCall) -> dict[str, int]:
        """The numbers of a caller's calls of that id, the newest of each family, by their families and the newest
        first. Raises PathNotFound where there is none, and Refused where several callers have one."""
        newest = await self._newest(which)
        if not newest:
            raise _absent()
        if len(newest) > 1:
            callers = ", ".join(sorted(newest))
            raise Refused(f"Several callers have a call of this id: {callers}; say whose with --caller", "ambiguous")
        return next(iter(newest.values()))

    async def _newest(self, which: wire.WhichCall) -> dict[str, dict[str, int]]:
        """The numbers of each caller's newest calls of that id, by the caller's name and the family."""
        newest: dict[str, dict[str, int]] = {}
        before: int | None = None
        while sum(map(len, newest.values())) <= MOST_NAMED:
            wanted = Filter(None, call_id=which.call_id, before=before, limit=AT_ONCE, family=which.family)
            page = await self._store.listed(wanted)
            for call in page:
                whose = (call.key.tenant, call.key.subject)
                if which.caller is None or is_named(*whose, which.caller):
                    newest.setdefault(caller_name(*whose), {}).setdefault(call.key.family, call.seq)
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


async def list_calls(parts: OperatorParts, exchange: Exchange) -> Reply:
    """The newest first, with a cursor for the older ones."""
    limit = query.limit(exchange, 50)
    state, tool, before = query.state(exchange), query.text(exchange, "tool"), query.cursor(exchange)
    wanted = Filter(None, state=state, tool=tool, before=before, limit=limit)
    return wire.encode_calls(await _calls(parts).listed(wanted), limit)


async def show_call(parts: OperatorParts, exchange: Exchange) -> Reply:
    return wire.encode_call(*await _calls(parts).show(_which(exchange), query.wait(exchange)))


async def cancel_call(parts: OperatorParts, exchange: Exchange) -> Reply:
    return wire.encode_call(await _calls(parts).cancel(_which(exchange)))


async def resolve_call(parts: OperatorParts, exchange: Exchange) -> Reply:
    return wire.encode_call(await _calls(parts).resolve(_which(exchange), wire.decode_settlement(exchange.body)))


def _calls(parts: OperatorParts) -> CallAdmin:
    return CallAdmin(parts.store, is_alone=parts.is_alone)


def _which(exchange: Exchange) -> wire.WhichCall:
    """The call's id, and whose call it is and in which family where the operator says so."""
    given = exchange.parameters["call_id"], query.text(exchange, "caller"), query.text(exchange, "family")
    return wire.WhichCall(*given)


OPERATIONS = (
    Operation("GET", wire.PATH, list_calls),
    Operation("GET", ONE, show_call),
    Operation("POST", f"{ONE}/cancel", cancel_call, audit_as=AuditKind.ADMIN),
    Operation("POST", f"{ONE}/resolve", resolve_call, audit_as=AuditKind.ADMIN, reads_json=True),
)
