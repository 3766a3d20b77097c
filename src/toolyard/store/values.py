"""Values that go into a store and come out of it, beside those of the model: what to look for, what was found, how long
things are kept, and the errors that only a store raises."""

from typing import Literal

from msgspec import Struct

from ..model.errors import Busy, KeyConflict, SetupError, Unavailable
from ..model.lifecycle import State, WaitingFor
from ..model.record import CallKey, CallRecord
from ..model.tool_patterns import offers_named
from ..model.worker import reference_of
from ..model.writes import Claimant, LeaseTerms


class StoreInUse(SetupError):
    """Another process writes to this ledger's file, and only one may."""


class SchemaTooNew(SetupError):
    """The ledger was written by a newer toolyard, whose tables this one does not know."""


class StoreDown(Unavailable):
    """The store cannot be reached or written to now. What was asked for may be recorded or not; asking again is
    safe."""


class Retention(Struct, frozen=True):
    """How long a ledger keeps what has ended: a call with its outcome for `calls_s`, and its key for `keys_s`."""

    calls_s: float = 7 * 86400.0
    keys_s: float = 86400.0

    @property
    def key_ttl_s(self) -> float:
        """A key is never free before its call's outcome may go: until then a retry is answered with it."""
        return max(self.keys_s, self.calls_s)


RETENTION, LEASE_TERMS = Retention(), LeaseTerms()
"""Where nothing else was said."""


def waiting_for_of(column: str | None) -> WaitingFor | None:
    """As it is read from a row."""
    return None if column is None else WaitingFor(column)


class Begun(Struct):
    """What `begin` found: a call that was recorded just now, or one that was there."""

    seq: int
    """Of the call that was recorded; 0 if there was one already."""
    known: CallRecord | None = None
    """The call that has this key, without what is large of it. Its payload may be gone, and then it is a
    `tombstone`."""
    tombstone: bytes | None = None
    """The fingerprint of a call whose payload was removed, but whose key is still taken."""


def begun_of(key: CallKey, fingerprint: bytes, there: CallRecord | None) -> Begun:
    """What has a key: the call that it names, if that is the one which took it."""
    is_it = there is not None and there.key == key and there.fingerprint == fingerprint
    return Begun(0, known=there) if is_it else Begun(0, tombstone=fingerprint)


MOST_BYTES = 16 * 2**20
"""How much of inputs and results is read at once. They are in memory several times before they are sent."""


class Filter(Struct, frozen=True):
    """Which calls to list. What is None does not matter."""

    tenant: str | None
    subject: str | None = None
    state: State | None = None
    tool: str | None = None
    before: int | None = None
    limit: int = 50
    call_id: str | None = None
    wire: str | None = None
    waiting_for: WaitingFor | None = None
    family: str | None = None


class Rollup(Struct, frozen=True):
    """How many calls of a tool came over a wire and ended in one way within a minute, and how long they took: in all,
    and how many of them within each of the histogram's times. `minute` is its number since 1970."""

    minute: int
    wire: str
    tool: str
    code: str
    calls: int
    total_s: float
    buckets: tuple[int, ...]


ROLLUPS_KEPT_S = 35 * 86400.0


class UpstreamRecord(Struct, frozen=True):
    """Another server whose tools are offered here, as it was last seen: what it offers is known before it answers."""

    name: str
    """Which an operator gave it."""
    address: str
    """A digest of where it is, and how it is reached: what was seen elsewhere says nothing about it."""
    listing: bytes
    """What it offered."""
    seen_at: float = 0.0
    """The store's time when it was put."""


class StoredQuestion(Struct, frozen=True):
    """A question of a call, and what it was answered with, if it was. Both are JSON."""

    name: str
    question: bytes
    answer: bytes | None = None


class Note(Struct, frozen=True):
    """Something kept for a caller under a name: a protocol's session, a resource that a tool gave out. What is kept
    because of a call says for which user that was made: it goes when the user's calls are erased, but not while the
    call `seq` lives."""

    kind: str
    tenant: str
    subject: str
    name: str
    data: bytes
    user_id: str | None = None
    seq: int | None = None


class NotedCalls(Struct, frozen=True):
    """Where the caller's calls without a key are noted by what they ask for: the names of notes of a kind, each with
    the number of a call. A new one is noted under the first name, for `keep_s`."""

    kind: str
    names: tuple[str, ...]
    keep_s: float


class ClaimFilter(Struct, frozen=True):
    """Which requests somebody who works on them asks for. `tools` are ids or names, each with `*` where anything may
    stand; none means any."""

    who: Claimant
    tools: tuple[str, ...] = ()
    session: str | None = None
    state: State | None = State.PENDING
    limit: int = 1
    most_bytes: int = MOST_BYTES
    """Of inputs and results: where they are large, there are fewer; but never none for that."""

    @property
    def offers(self) -> list[str]:
        """Of what `who` serves, that which is asked for."""
        return offers_named(self.who.serves, self.tools)

    @property
    def references(self) -> list[str]:
        """Of the same tools."""
        return sorted(set(map(reference_of, self.offers)))


class Usage(Struct, frozen=True):
    """What a node used of something limited, in a minute by the clock and the one before it, and what runs there now.
    `window` is the minute's number since 1970."""

    name: bytes
    window: int
    used: int
    before: int
    running: int


Held = Literal["mcp_sessions", "sessions", "waiting_calls", "workers"]
"""What is counted by its rows. `mcp_sessions` are notes of the kind `mcp session`, `waiting_calls` are PENDING."""


class WentBack(Struct, frozen=True):
    """What became of the calls that had not ended in the copy to which a ledger went back."""

    unknown: int
    """They ended, as `outcome_unknown`."""
    going_on: int
    """Their tools may run again (`on_lost`)."""


def only_stars(pattern: str) -> str:
    """As a glob in which nothing but `*` means anything."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def queue_full(reference: str, most: int) -> Busy:
    """What `begin` raises instead of recording one more."""
    return Busy(
        f"{reference} is busy; try again later",
        retry_after_ms=1000,
        developer_message=f"{most} calls of it are waiting already",
    )


def key_conflict(key: CallKey) -> KeyConflict:
    """What `add_turn` raises."""
    return KeyConflict(
        f"The tool use {key.call_id!r} is there already, with another tool or input",
        developer_message="an id stands for one tool use; nothing of this message was taken",
    )
