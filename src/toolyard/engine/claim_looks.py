"""Looks for work that several polls share.

A worker may have hundreds of polls open. Each hint of new work wakes all of them, though one call is for one of them,
and all look again from time to time, since a hint may be lost. If each went to the ledger, SQLite's one thread would be
taken from everybody meanwhile. So the polls of one caller look one after the other here; and where one of those who ask
for the same has just found nothing, the others know it.
"""

import asyncio

from msgspec import Struct

from ..model.record import CallRecord
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import ClaimFilter
from .caller_turns import CallerTurns

KNOWN_S = 0.5
"""How long it is known that there is nothing, unless there is a hint."""
MOST_SHARED = 1000


class SharedLook(Struct, eq=False):
    """What those know who ask for the same: when one of them last found nothing."""

    hints: int = -1
    """How many hints of work there had been when that look began."""
    until: float = 0.0


class ClaimLooks:
    """The looks of one node, by what is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shared: dict[object, SharedLook] = {}
        self._turns = CallerTurns()

    async def listed(self, wanted: ClaimFilter) -> list[CallRecord]:
        """What there is, without claiming it."""
        async with self._turns.of(wanted.who):
            return await self._store.requests(wanted)

    async def look(self, wanted: ClaimFilter) -> list[CallRecord]:
        """Claims what there is; nothing, where somebody has just found that there is nothing."""
        shared = self._of(wanted)
        async with self._turns.of(wanted.who):
            now, hints = asyncio.get_running_loop().time(), self._store.hints.told[Topic.PENDING]
            if shared.hints == hints and now < shared.until:
                return []
            found = await self._store.claim(wanted)
            if not found:
                shared.hints, shared.until = hints, now + KNOWN_S
            return found

    def _of(self, wanted: ClaimFilter) -> SharedLook:
        who = wanted.who
        asked = (who.tenant, who.subject, who.serves, who.tenants, wanted.tools)
        if len(self._shared) > MOST_SHARED:
            self._shared.clear()  # who looks now looks once more
        return self._shared.setdefault(asked, SharedLook())
