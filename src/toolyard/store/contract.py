"""What a ledger promises. One suite, `tests/contract/`, holds every store to it.

Every method that writes returns after its write is durable: `kill -9` and power loss do not undo it. Times are the
store's own clock at the moment of the write. A write about an attempt names it and changes nothing unless that attempt
still holds the call; whoever loses is given the row, and answers from it.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from ..model.errors import SetupError, Unavailable
from ..model.lifecycle import State
from ..model.record import CallRecord, Ending, Key, NewCall, Ran


class StoreInUse(SetupError):
    """Another process writes to this file."""


class SchemaTooNew(SetupError):
    """The store was written by a newer toolyard."""


class StoreDown(Unavailable):
    """The store cannot be reached or written to now. Nothing was recorded."""


class Begun(Struct):
    """What `begin` found: a call that was recorded just now, or one that was there."""

    seq: int
    """Of the call that was recorded; 0 if there was one already."""
    known: CallRecord | None = None
    """The call that has this key. Its payload may be gone, and then it is a `tombstone`."""
    tombstone: bytes | None = None
    """The fingerprint of a call whose payload was removed, but whose key is still taken."""


class Filter(Struct, frozen=True):
    """Which calls to list."""

    tenant: str
    subject: str | None = None
    state: State | None = None
    tool: str | None = None
    before: int | None = None
    limit: int = 50


class Store(Protocol):
    """A ledger of calls."""

    async def open(self) -> None:
        """Migrates the schema and takes what the store needs. Raises StoreInUse, SchemaTooNew, StoreDown."""
        ...

    async def close(self) -> None:
        """Everything that was accepted is durable before this returns."""
        ...

    async def begin(self, call: NewCall) -> Begun:
        """Records the call and starts its first attempt, in one write. If it is keyed and the key is taken, nothing
        is written and what has the key is returned, whatever its fingerprint. Two calls of this with one key at the
        same instant, on any nodes: one records, the other is given that record."""
        ...

    async def record(self, calls: Sequence[Ran]) -> None:
        """Writes calls without a key that have run already."""
        ...

    async def finish(self, seq: int, attempt: int, ending: Ending) -> CallRecord | None:
        """Ends a call, if that attempt still holds it: then None. Otherwise nothing is written and the row as it is
        now is returned. An ending that releases the key frees it in the same write."""
        ...

    async def find(self, key: Key) -> Begun | None:
        """What has this key, if anything does."""
        ...

    async def get(self, tenant: str, subject: str, call_id: str) -> CallRecord | None:
        """The caller's newest call of that id. Another caller's is not there."""
        ...

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        """The newest first."""
        ...

    async def lost(self) -> list[CallRecord]:
        """Calls whose holder is gone. Each is to be started again or ended."""
        ...

    async def restart(self, seq: int, attempt: int) -> int | None:
        """Starts the next attempt of a call whose holder is gone: its number, or None if somebody else did."""
        ...

    async def sweep(self, limit: int) -> int:
        """Removes finished calls past their time, at most `limit` of them, and tombstones past theirs. How many."""
        ...
