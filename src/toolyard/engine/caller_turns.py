"""Turns of one caller at what takes the ledger for long.

SQLite's one thread takes what comes as it comes, whoever sent it, and PostgreSQL has a few connections. So of what
takes them for long, such as a look for work or the heartbeats of many requests, each caller has one in there at a time:
its others wait here, and not before somebody else's.
"""

import asyncio
from weakref import WeakValueDictionary

from ..model.writes import Claimant


class CallerTurns:
    """The turns of all callers at one thing, on one node."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, who: Claimant) -> asyncio.Lock:
        """To be held while it is done."""
        return self._locks.setdefault((who.tenant, who.subject), asyncio.Lock())
