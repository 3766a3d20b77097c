"""What workers were given with the calls that they work on: it must not come back in what they say of them."""

from collections import OrderedDict

from ..model.call import CallContext
from ..model.record import CallRecord
from ..model.scrubbing import Scrubber, scrubber_of
from ..model.standing import Who
from ..store.contract import Store
from ..trust.keys import KeyRing
from .recovery import context_of

MOST = 10_000
"""Of which it is known by heart whether they were given anything; others are looked up."""


class Given:
    """Remembers which calls were given something; opens it for each use anew."""

    def __init__(self, store: Store, ring: KeyRing) -> None:
        self._store, self._ring = store, ring
        self._calls: OrderedDict[tuple[str, str], CallRecord | None] = OrderedDict()
        """By session and request; None: it was given nothing."""

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
        call = self._calls[session, request]
        return None if call is None else self.scrubber_of(call)

    def scrubber_of(self, call: CallRecord) -> Scrubber | None:
        if call.sealed is None:
            return None
        context = context_of(call, self._ring)
        return scrubber_of(context.secrets, context.tokens)

    def _remember(self, call: CallRecord) -> None:
        self._calls[call.session or "", call.request or ""] = None if call.sealed is None else call
        if len(self._calls) > MOST:
            self._calls.popitem(last=False)
