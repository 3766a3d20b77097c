"""A caller's own calls, as far as the credentials that it comes with are for them.

Several credentials may be one caller: keys of one subject, tokens with other scopes. One that is limited to some tools
neither calls the others nor reaches their calls: by id, in a list, as a task, by a question or in a session, a call of
another tool is as absent as another caller's. Whoever reaches for a call on a caller's behalf does it through this.
"""

from msgspec.structs import replace

from ..catalogue import Catalogue
from ..model.caller import Caller
from ..model.errors import ToolNotFound
from ..model.record import CallRecord
from ..store.contract import Store
from ..store.values import Filter


class OwnCalls:
    """The calls that are there for a caller, with the credentials that it has now."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store, self._catalogue = store, catalogue

    def shows(self, call: CallRecord, caller: Caller) -> bool:
        """Whether a call of the caller's is there for it. A tool that a session brought is nobody else's, and for
        whoever has the session."""
        return call.queue == "session" or self.is_for(call.reference, caller)

    def is_for(self, reference: str, caller: Caller) -> bool:
        """Whether the credentials are for a tool, which may not be there any more: then, whether they may have been."""
        try:
            tool = self._catalogue.resolve(reference)
        except ToolNotFound:
            return caller.view.may_have_seen(reference.partition("@")[0])
        return caller.view.lists(tool)

    async def get(self, caller: Caller, call_id: str, family: str | None = None) -> CallRecord | None:
        """The newest of that id that is there, in one family or in any."""
        call = await self._store.get(caller.tenant, caller.subject, call_id, family)
        if call is None or self.shows(call, caller):
            return call
        wanted = Filter(caller.tenant, caller.subject, call_id=call_id, family=family, limit=1)
        return next(iter([await self._store.row(each.seq) for each in await self.listed(caller, wanted)]), None)

    async def row(self, caller: Caller, seq: int) -> CallRecord | None:
        """By its number."""
        call = await self._store.row(seq)
        is_there = call is not None and caller.owns(call.key.tenant, call.key.subject) and self.shows(call, caller)
        return call if is_there else None

    async def listed(self, caller: Caller, wanted: Filter) -> list[CallRecord]:
        """As many as are wanted, if there are so many: what is not there takes no place."""
        found: list[CallRecord] = []
        while len(found) < wanted.limit:
            page = await self._store.listed(wanted)
            found += [call for call in page if self.shows(call, caller)]
            if len(page) < wanted.limit:
                break
            wanted = replace(wanted, before=page[-1].seq)
        return found[: wanted.limit]
