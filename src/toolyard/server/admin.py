"""What whoever runs the server may do with the calls of all callers: list, show, cancel, settle.

Asked over `/v1/admin` or, where no server holds the ledger, directly: both ways end here.
"""

from ..engine.held import until_ended
from ..model.errors import PathNotFound, Refused
from ..model.record import CallRecord, Ending
from ..store.contract import Filter, Store
from ..wires.admin import caller_name

AT_ONCE = 50
MOST_NAMED = 20
"""Callers that are named where an id is that of several. Nobody reads more."""


class AdminDesk:
    """`alone`: nobody else has the ledger, so what has not ended will not end while this waits."""

    def __init__(self, store: Store, *, alone: bool = False) -> None:
        self._store, self._alone = store, alone

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        return await self._store.listed(wanted)

    async def show(self, call_id: str, caller: str | None, wait_s: float = 0.0) -> CallRecord:
        """Once it has ended or the time is up."""
        seq = await self._find(call_id, caller)
        call = await until_ended(self._store, seq, 0.0 if self._alone else wait_s)
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
                if caller in (None, call.key.subject, caller_name(call.key)):
                    newest.setdefault(caller_name(call.key), call.seq)
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
