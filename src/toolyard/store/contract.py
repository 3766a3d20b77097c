"""What a ledger promises. One suite, `tests/store/`, holds every store to it.

Every method that writes returns after its write is durable: `kill -9` and power loss do not undo it. Times are the
store's own clock at the moment of the write. A write about an attempt names it and changes nothing unless that attempt
still holds the call; whoever loses is given the row, and answers from it. What such a write does is judged by
`model.judge`, with the row locked, or written in one statement that is tested against it.

A write whose fate is not known (the connection broke while it was committed) is made again or looked up, never guessed:
every write here can be made twice and has its effect once. Where that cannot be found out in time, StoreDown is
raised, and the call is settled later like one whose holder is gone.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from ..model.api_key import ApiKey
from ..model.audit import AuditBlock, Chain, Mark
from ..model.judge import Judged, Verdict
from ..model.lifecycle import State
from ..model.record import CallKey, CallRecord, Ending, NewCall, Ran
from ..model.sealed import Sealed
from ..model.session import Event, RequestEvent, Session, SessionStanding
from ..model.worker import WorkerRecord
from ..model.writes import Answer, Claimant, Decision, HandBack, HeartbeatWrite, WaitForAccount
from .hints import Hints, Topic
from .values import (
    MOST_BYTES,
    Begun,
    ClaimFilter,
    Filter,
    Held,
    Note,
    NotedCalls,
    Rollup,
    StoredQuestion,
    UpstreamRecord,
    Usage,
    WentBack,
)
from .write_behind import WriteBehind


class AuditStore(Protocol):
    """Blocks of the audit log. They are added at a chain's end and dropped at its front; nothing changes one."""

    async def add(self, block: AuditBlock, head: Mark) -> bool:
        """Adds a block and moves its chain's head there, in one write. Whether it is there now, which it also is when
        it was there before; False: the chain has another block of this number, and nothing was written."""
        ...

    async def chains(self) -> list[Chain]:
        """All of which there is a block, a head or an anchor, by name."""
        ...

    async def chain(self, name: str) -> Chain:
        """One of them; where there is no such chain, one without head and anchor."""
        ...

    async def blocks(self, chain: str, after: int, limit: int, since: float | None = None) -> list[AuditBlock]:
        """Those after that number, in order, from the first that ends at `since` or later."""
        ...

    async def drop(self, anchor: Mark) -> int:
        """Drops a chain's blocks up to the anchor's number, and keeps the anchor unless there is a later one, in one
        write. How many."""
        ...


class ApiKeyStore(Protocol):
    """API keys, by their digests. None is ever removed."""

    hints: Hints

    async def put(self, key: ApiKey) -> bool:
        """Records a key, created now. Whether it did: another that is neither revoked nor expired may have its name,
        and then nothing is written."""
        ...

    async def listed(self) -> list[ApiKey]:
        """All that there ever were, also revoked and expired ones, in the order they were made."""
        ...

    async def revoke(self, name: str) -> bool:
        """Whether there was one of that name that was not revoked."""
        ...

    async def note_use(self, uses: Mapping[bytes, float]) -> None:
        """When keys were last used, by their digests; the latest stays, whoever says so first. Nothing is promised
        of it."""
        ...


class SealedStore(Protocol):
    """Sealed things, by (kind, tenant, owner, name). What is in them only the ring of keys can tell."""

    async def put(self, thing: Sealed, instead_of: int | None = None) -> bool:
        """In the place of the version that is named: 0 is none at all, None is whatever is there. It is kept as the
        next version. Whether it was put: another may have been faster."""
        ...

    async def get(self, kind: str, tenant: str, owner: str, name: str) -> Sealed | None: ...

    async def listed(
        self, kind: str | None = None, tenant: str | None = None, owner: str | None = None
    ) -> list[Sealed]:
        """Those of a kind, a tenant and an owner, where one is named. In the order of their names."""
        ...

    async def drop(self, kind: str, tenant: str, owner: str, name: str) -> bool:
        """Whether it was there."""
        ...


class CallStore(Protocol):
    """Calls of every wire, and the attempts of this server's own processes at them."""

    async def begin(self, call: NewCall, most_pending: int | None = None) -> Begun:
        """Records the call, in one write. One whose `queue` is `node`, and which waits for nothing, is PROCESSING at
        once, its first attempt held by this node; any other is PENDING, attempt 0, until somebody claims it. If it is
        keyed and the key is taken, nothing is written and what has the key is returned, whatever its fingerprint. Two
        calls of this with one key at the same instant, on any nodes: one records, the other is given that record. A
        call that would have to wait behind `most_pending` of the same tool is not recorded: raises Busy."""
        ...

    async def begin_noted(self, call: NewCall, noted: NotedCalls, most_pending: int | None = None) -> Begun:
        """As `begin`, for a call without a key that is known again by a note. Where one of the notes names a call like
        this one, nothing is written and that call is returned; otherwise the call is recorded and noted. The look and
        the write are one step: of several at the same instant, on any nodes, one is recorded."""
        ...

    async def record(self, calls: Sequence[Ran]) -> int:
        """Writes calls without a key that have run already, the small ones in blocks (`blocks.py`). How many of them
        could not be written, whatever is wrong with those; the others are."""
        ...

    async def finish(self, seq: int, attempt: int, ending: Ending) -> CallRecord | None:
        """Ends a call that this node runs, if that attempt still holds it: then None. Otherwise nothing is written
        and the row as it is now is returned. An ending that releases the key frees it in the same write."""
        ...

    async def hand_back(self, seq: int, attempt: int) -> None:
        """Leaves a call that this node runs to any other, or to the next start, if that attempt still holds it. It
        does not count as lost."""
        ...

    async def cancel(self, seq: int) -> Judged | None:
        """Ends a call as cancelled unless it has ended. None: there is no such call."""
        ...

    async def release_wait(self, decision: Decision) -> Judged | None:
        """What a call waits for has come, or never will: it goes on, or ends. Of several decisions the first counts.
        None: there is no such call."""
        ...

    async def hold(self, wait: WaitForAccount) -> Judged | None:
        """A call that was about to begin lacks something, and waits for it, or ends. None: there is no such call."""
        ...

    async def find(self, key: CallKey) -> Begun | None:
        """What has this key, if anything does. As with everything that begins a call, what is known of one is there
        without an input and a result that are large (`CallRecord.is_cut`); `row` brings them."""
        ...

    async def get(self, tenant: str, subject: str, call_id: str, family: str | None = None) -> CallRecord | None:
        """The caller's newest call of that id, in that family where one is named: an id in two families is two calls.
        Another caller's is not there."""
        ...

    async def row(self, seq: int) -> CallRecord | None:
        """A call by its number. What is large of it is read in its caller's turn (`read_turns.py`)."""
        ...

    async def glance(self, seq: int) -> CallRecord | None:
        """The same, without an input and a result that are large: it `is_cut` then."""
        ...

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        """The newest first. Inputs and results that are kept out of the row are not brought (empty, None)."""
        ...

    async def waiting_calls(self, waiting_for: str, tenant: str | None, limit: int) -> tuple[list[int], int]:
        """The numbers of so many PENDING calls that wait for that, and how many there are in all. Each caller's oldest
        come before the second of anybody: nobody's many calls keep another's from being seen."""
        ...

    async def counted(self, newest: int) -> dict[State, int]:
        """How many calls are in each state: all that live, and of those that have ended the ones among the newest
        `newest` calls. A state without calls is left out."""
        ...

    async def unstarted(self, limit: int) -> list[CallRecord]:
        """Calls of `queue` `node` that nobody runs (`model.judge.is_unstarted`): a person approved them, their account
        was connected, they were handed back, or their node is gone. Each is to be started or ended. The oldest
        first."""
        ...

    async def restart(self, seq: int, attempt: int) -> int | None:
        """Starts the next attempt of such a call, held by this node: its number, or None if somebody else was faster.
        Counts a loss if the call was PROCESSING."""
        ...

    async def give_up(self, seq: int, attempt: int, ending: Ending) -> bool:
        """Ends such a call. Whether it did: somebody else may have been faster."""
        ...

    async def resolve(self, seq: int, ending: Ending | None) -> CallRecord | None:
        """A person settles a call that ended as `outcome_unknown`: it ends so instead, or without an ending it is
        PENDING again, to be run once more. The row as it is now; None where it is not such a call."""
        ...

    async def note_progress(self, notes: Sequence[tuple[int, int, bytes]]) -> None:
        """Shows how far attempts of this node are: (seq, attempt, JSON). Nothing is promised of it."""
        ...

    async def expire(self, limit: int) -> int:
        """Settles calls that are overdue (`model.judge.settle`), at most `limit` of them. How many."""
        ...

    async def sweep(self, limit: int) -> int:
        """Removes finished calls past their time, about `limit` of them, with what was kept out of their rows; and
        tombstones and sessions past theirs. How many calls. A block goes as a whole, once all of it is past its
        time."""
        ...

    async def merge(self) -> int:
        """Makes large blocks of small ones. How many blocks there are fewer."""
        ...

    async def erase(self, tenant: str | None, user_id: str) -> int:
        """Removes all ended calls that were made for a user, of one tenant or of any, and what was kept because of
        them. How many calls. A call is made for its `user_id`; where it has none, for its caller. Keys stay taken."""
        ...


class RequestStore(Protocol):
    """Calls that others work on: the requests of sessions, and calls of workers' tools. They are known by their
    session and their id in it; what somebody may not touch looks like what is not there."""

    async def claim(self, wanted: ClaimFilter) -> list[CallRecord]:
        """Starts the next attempt of that many PENDING requests, the oldest first, held by `who`. No request is given
        to two. It is done with fewer once they have `most_bytes`."""
        ...

    async def beat(self, beats: Sequence[HeartbeatWrite]) -> list[Verdict | None]:
        """Renews, or claims. One verdict each, in order; None: there is no such request."""
        ...

    def answer(self, answer: Answer) -> Awaitable[Verdict | None]:
        """Ends a request. Those that are begun before one of them is awaited may be written together."""
        ...

    async def leave(self, hand_back: HandBack) -> Verdict | None:
        """Gives a request back."""
        ...

    async def request(self, who: Claimant, session: str, request: str) -> CallRecord | None:
        """One request."""
        ...

    async def requests(self, wanted: ClaimFilter) -> list[CallRecord]:
        """Without claiming them, the oldest first, until they have `most_bytes`. What another caller's worker holds or
        held is not among them, though the tool be of both."""
        ...

    async def superseded(self, offers: Sequence[str], limit: int) -> list[CallRecord]:
        """So many PENDING calls that were made to those who make these offers, of the same tools, by another definition
        than the one that they offer now."""
        ...


class SessionStore(Protocol):
    """Sessions, the tool uses of their messages, which are calls, and the events that tell of them."""

    async def create_session(self, session: Session) -> None: ...

    async def session(self, tenant: str, subject: str, id: str) -> Session | None:
        """Another caller's is not there."""
        ...

    async def add_turn(self, session: str, calls: Sequence[NewCall]) -> list[Begun]:
        """Records the tool uses of a message, all or none, in order. Their key's `family` is the session's id. One
        that is known already with the same fingerprint is left as it is. Raises KeyConflict where one is known with
        another. If any is new and nothing of the session was open, this is the session's next turn."""
        ...

    async def session_standing(self, tenant: str, subject: str, id: str) -> SessionStanding | None:
        """How far a session of the caller's is."""
        ...

    async def session_metadata(self, id: str) -> bytes:
        """JSON, as it came; of a session that is not there, nothing."""
        ...

    async def request_standings(self, session: str) -> list[RequestEvent]:
        """All its requests, in order, and of each only where it stands."""
        ...

    async def session_requests(
        self, session: str, turn: int | None, after: int = 0, most_bytes: int = MOST_BYTES
    ) -> list[CallRecord]:
        """Its requests, those of one turn or all, in order; those after the one of that number, until they have
        `most_bytes`: there are fewer than all where all would have more, and none only if there are none."""
        ...

    async def events(self, session: str, after: int, limit: int) -> list[Event]:
        """A `request` event for each change of a request's state or attempt and whenever it waits for something else,
        and a `session` event whenever the session's status changes. Numbered from 1; without gaps, but for one wherever
        the ledger went back to a copy."""
        ...


class WorkerStore(Protocol):
    """Workers that are alive, by (tenant, subject, name): each has a lease, and is forgotten when that runs out."""

    async def put_worker(self, worker: WorkerRecord) -> None:
        """Registers it, or gives it other tools; alive for `lease_s` from now."""
        ...

    async def beat_worker(self, tenant: str, subject: str, name: str) -> bool:
        """Alive for another `lease_s`. Whether it is registered."""
        ...

    async def drop_worker(self, tenant: str, subject: str, name: str) -> bool:
        """Whether it was registered."""
        ...

    async def workers(self) -> list[WorkerRecord]:
        """All that are alive, in a stable order."""
        ...


class UpstreamStore(Protocol):
    """Other servers whose tools are offered here, by name, as they were last seen."""

    async def put_upstream(self, upstream: UpstreamRecord) -> bool:
        """In the place of what was there; seen now. Whether it says anything new, but for the time: then nodes hear of
        it."""
        ...

    async def upstreams(self) -> list[UpstreamRecord]:
        """All, by name."""
        ...

    async def drop_upstream(self, name: str) -> bool:
        """Whether it was there."""
        ...


class QuestionStore(Protocol):
    """What running calls ask their clients, and what they were answered. Both outlive the attempt that asked."""

    async def ask(self, seq: int, attempt: int, name: str, question: bytes) -> bytes | None:
        """Records a question of a call that this node runs, if that attempt still holds it and none of that name is
        there; from then on the call waits for an `answer`. What it was answered with before, if it was."""
        ...

    async def answer_questions(self, seq: int, answers: Mapping[str, bytes]) -> None:
        """Answers those of the call's open questions that are named; others are ignored, and the first answer stays.
        When none is open any more, the call waits for nothing."""
        ...

    async def questions(self, seq: int) -> list[StoredQuestion]:
        """All of a call's, in the order they were asked."""
        ...


class NoteStore(Protocol):
    """Small things kept for a caller, by (kind, tenant, subject, name)."""

    async def put_note(self, note: Note, keep_s: float) -> None:
        """In the place of what was there; gone `keep_s` from now."""
        ...

    async def add_note(self, note: Note, keep_s: float) -> bool:
        """Whether it was put: not where there is one already. Of several at once, one is."""
        ...

    async def note(self, kind: str, tenant: str, subject: str, name: str) -> bytes | None: ...

    async def drop_note(self, kind: str, tenant: str, subject: str, name: str, data: bytes | None = None) -> bool:
        """Whether it was there; where `data` is given, with that data."""
        ...


class CallEventStore(Protocol):
    """What was told of a call while it ran, for a client that comes back for it."""

    async def add_call_events(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """(call's number, event's number, data). One that is there already stays."""
        ...

    async def call_events(self, seq: int, after: int) -> list[tuple[int, bytes]]:
        """(number, data) of those after that number, in order."""
        ...


class UsageStore(Protocol):
    """What nodes use of what is limited on all of them together."""

    async def share_usage(self, news: Sequence[Usage]) -> tuple[float, list[Usage]]:
        """Says what changed of this node's use since the last time; the ledger's time, and what each of the other
        nodes that are alive said last. What a node said is gone with it. Nothing is promised after a crash of the
        store."""
        ...


class RollupStore(Protocol):
    """What was called, by the minute. It outlives the calls."""

    async def put_rollups(self, rollups: Sequence[Rollup]) -> None:
        """This node's totals of a minute, in the place of what it said of that minute before."""
        ...

    async def rollups(self, since: int, until: int) -> list[Rollup]:
        """Of the minutes from `since` and before `until`, all nodes together, in their order."""
        ...


class HoldingStore(Protocol):
    """How much callers leave behind in the ledger, counted and in bytes, for the quotas to judge by."""

    async def count_held(self, what: Held, tenant: str, subject: str | None, most: int, besides: str = "") -> int:
        """How many of these a caller has, or a whole tenant, counted no further than `most`. A worker of the name
        `besides` does not count."""
        ...

    async def full(self, per_caller: int, per_tenant: int) -> tuple[set[tuple[str, str]], set[str]]:
        """The callers, as (tenant, subject), for whom that many bytes or more are kept, and such tenants. Calls,
        sessions and notes count, with what belongs to them, from when they are written until they are removed."""
        ...


class Store(
    CallStore,
    RequestStore,
    SessionStore,
    WorkerStore,
    UpstreamStore,
    QuestionStore,
    NoteStore,
    CallEventStore,
    UsageStore,
    RollupStore,
    HoldingStore,
    Protocol,
):
    """A ledger, as a server uses it: calls and all that belongs to them directly, and what the trust layer keeps as the
    parts `audit`, `api_keys` and `sealed`."""

    hints: Hints
    """Who is told when something changes."""
    behind: WriteBehind
    """Calls that have run, and are written a moment later. Whoever reads calls here sees them."""
    node: str
    """The name this process holds calls under."""
    shared: bool
    """Whether other processes may be using the ledger now."""

    @property
    def audit(self) -> AuditStore:
        """The audit log."""
        ...

    @property
    def api_keys(self) -> ApiKeyStore:
        """The API keys that were made here."""
        ...

    @property
    def sealed(self) -> SealedStore:
        """Secrets, accounts, and whatever else the vault keeps."""
        ...

    def tell(self, topic: Topic, key: str | int = "") -> None:
        """A hint for whoever watches, on every node. It may be lost."""
        ...

    async def open(self) -> None:
        """Migrates the schema and takes what the store needs. Raises StoreInUse, SchemaTooNew, StoreDown."""
        ...

    async def close(self) -> None:
        """Everything that was accepted is durable before this returns."""
        ...

    async def check(self) -> None:
        """Raises StoreDown if nothing can be recorded now."""
        ...

    async def take_slot(self, tool: str, most: int) -> bool:
        """One of the runs a tool may have at once, on all nodes together. Whether there was one. A node's slots are
        free again when it is gone."""
        ...

    async def give_slot(self, tool: str) -> None: ...

    async def go_back(self, forgotten: Sequence[str], last_number: int | None = None) -> WentBack:
        """Settles a ledger that is a copy of itself from an earlier moment, before anybody serves it, in one write.

        Every call that has not ended is judged as `GoBack`. No number that was given after the copy was made is given
        again: to a call (the highest that was given is `last_number`, where that is known), to an attempt, to an event
        of a session. Notes of the kinds `forgotten` are gone. Raises StoreInUse if a node serves the ledger."""
        ...
