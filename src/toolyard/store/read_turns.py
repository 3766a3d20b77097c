"""Whose long read of the ledger goes on.

To read an input or a result of megabytes, or to look through thousands of calls for a few, takes the ledger from others
meanwhile: SQLite's one thread, or one of a few connections to PostgreSQL. So long reads are made in turns: one at a
time for each caller, however many it asks for at once, and in steps, of which few are taken at the same moment, whoever
takes them. Sixty replays of thirty megabytes are then never in memory together, and who wants something small waits for
one step of another's at most.

Who looks for a call is first given it without what is large of it (`CallRecord.is_cut`): what is small needs no turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from msgspec.structs import replace

from ..model.record import CallRecord
from .blocks import ListStep
from .values import Filter


class ReadTurns:
    """The turns of one node. Those of one caller come in order, and so do steps."""

    def __init__(self, most_at_once: int) -> None:
        self._own: WeakValueDictionary[tuple[str | None, str | None], asyncio.Lock] = WeakValueDictionary()
        """Of each caller that reads or waits."""
        self.step = asyncio.Semaphore(most_at_once)
        """To be held while one step is made, by who has the turn."""

    def turn(self, tenant: str | None, subject: str | None) -> asyncio.Lock:
        """To be held for the whole of a caller's long read. Who reads everybody's names nobody."""
        return self._own.setdefault((tenant, subject), asyncio.Lock())

    async def listed(self, wanted: Filter, read: Callable[[Filter], Awaitable[ListStep]]) -> list[CallRecord]:
        """The calls that a filter wants, by as many steps as it takes to find them."""
        found: list[CallRecord] = []
        async with self.turn(wanted.tenant, wanted.subject):
            while True:
                async with self.step:
                    page = await read(wanted)
                found += page.calls
                if page.left_off is None or len(page.calls) >= wanted.limit:
                    return found
                wanted = replace(wanted, before=page.left_off, limit=wanted.limit - len(page.calls))
