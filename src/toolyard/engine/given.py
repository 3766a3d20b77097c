"""What workers were given with the calls that they work on: it must not come back in what they say of them."""

from collections import OrderedDict

from ..model.call import CallContext
from ..model.record import CallRecord
from ..model.scrubbing import Scrubber, scrubber_of
from ..model.standing import Who
from ..store.contract import Store
from ..trust.keys import KeyRing
from .recovery import context_of, opened

MOST = 10_000
"""Of which it is known by heart whether they were given anything; others are looked up."""


class Given:
    """Remembers which calls were given something; opens it for each use anew."""

    def __init__(self, store: Store, ring: KeyRing) -> None:
        self._store, self._ring = store, ring
        self._calls: OrderedDict[tuple[str, str], tuple[str, bytes] | None] = OrderedDict()
        """By session and request: its id and what it was given, sealed; None: it was given nothing."""

    def context_of(self, call: CallRecord) -> CallContext:
        """Of a call that a worker claims. Raises BrokenSeal."""
        self._remember(call)
        return context_of(call, self._ring)

    async def scrubber(self, who: Who, session: str, request: str) -> Scrubber | None:
        """For what is said of that request, whoever gave it out. Raises BrokenSeal."""
        if (session, request) not in self._calls:
            found = await self._store.request(who, session, request)
            if found is None:
                return None
            self._remember(found)
        given = self._calls[session, request]
        return None if given is None else self._scrubber(*given)

    def scrubber_of(self, call: CallRecord) -> Scrubber | None:
        return None if call.sealed is None else self._scrubber(call.key.call_id, call.sealed)

    def _scrubber(self, call_id: str, sealed: bytes) -> Scrubber | None:
        context = opened(call_id, sealed, self._ring)
        return scrubber_of(context.secrets, context.tokens)

    def _remember(self, call: CallRecord) -> None:
        given = None if call.sealed is None else (call.key.call_id, call.sealed)
        self._calls[call.session or "", call.request or ""] = given
        if len(self._calls) > MOST:
            self._calls.popitem(last=False)
