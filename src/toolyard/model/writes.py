"""What is written about a call that is in the ledger: each kind of write as a value, and the state that it is about.

Nothing is decided here. `model.judge` says what becomes of a `CallState` when one of these writes is made about it, and
the stores carry that out. A write is a value, and not a method of the store, so that many can be made in one
transaction, and so that the rules can be tested without a ledger.
"""

import re
from secrets import token_hex
from typing import Literal

import msgspec
from msgspec import Struct

from .call import LONGEST_CALL_ID
from .lifecycle import State, WaitingFor
from .record import Ending, NewCall, Queue
from .worker import reference_of

Reason = Literal["completed", "failed", "abandoned", "cancelled", "held", "stale_attempt", "conflict", "waiting"]
"""Why a write about a call was refused."""

DIRECT = "direct"
"""The session of calls that came in outside one."""
_RANDOM_BYTES = 8
_random_part = re.compile(rf"~[0-9a-f]{{{2 * _RANDOM_BYTES}}}\Z")
LONGEST_REQUEST_ID = LONGEST_CALL_ID + 1 + 2 * _RANDOM_BYTES


def request_id(call: NewCall) -> str | None:
    """The call's name in its session. Those of a session are its owner's to choose. Outside one all callers share the
    names, so that nobody may be able to foresee, take or probe another's."""
    if call.session != DIRECT:
        return None if call.session is None else call.key.call_id
    return f"{call.key.call_id}~{token_hex(_RANDOM_BYTES)}"


def call_id_of(session: str, request: str) -> str:
    """What the caller named the call. An older ledger may have requests without the random part."""
    return _random_part.sub("", request) if session == DIRECT else request


class LeaseTerms(Struct, frozen=True):
    """How long a claim, a worker's registration or a node's sign of life holds unless it is renewed, and how many
    attempts at a call may be lost before it is given up."""

    lease_s: float = 30.0
    max_attempts: int = 3


class CallState(Struct):
    """The part of a call's row that the rules look at: whose it is, its times, and all that changes while it lives.

    The fields have the names and the order of the columns: a store makes a CallState straight from a row. Those from
    `queue_until` to `digest` are what a judged write saves."""

    seq: int
    tenant: str
    subject: str
    session: str | None
    request: str | None
    reference: str
    queue: Queue
    on_lost: str
    run_s: float | None
    created_at: float
    deadline_at: float | None
    queue_until: float | None
    state: State
    code: str | None = None
    waiting_for: WaitingFor | None = None
    attempt: int = 0
    losses: int = 0
    holder: str | None = None
    lease_until: float | None = None
    run_until: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    seen_at: float | None = None
    heartbeat: float | None = None
    progress: bytes | None = None
    effects: str | None = None
    digest: bytes | None = None
    """Of the answer that was recorded, so that the same answer again is known for what it is."""
    offer: str | None = None
    """Of a call of a worker's tool: to whom it was made. None: in a ledger of before that was kept."""


class Claimant(Struct, frozen=True):
    """Somebody who works on requests: `worker` tells apart those of one subject, `serves` are the offers that its
    workers make (`model.worker.offer_of`), and `tenants` those besides its own whose calls of these tools it may have.
    None: those of all tenants."""

    tenant: str
    subject: str
    worker: str = ""
    serves: frozenset[str] = frozenset()
    tenants: frozenset[str] | None = frozenset()

    @property
    def houses(self) -> list[str] | None:
        """All the tenants whose calls it may have, its own among them. None: all there are."""
        return None if self.tenants is None else sorted({self.tenant, *self.tenants})

    @property
    def holder(self) -> str:
        """The name under which it holds calls. JSON, so that no two claimants can have the same one."""
        return msgspec.json.encode([self.tenant, self.subject, self.worker]).decode()

    @property
    def holders(self) -> str:
        """How the names begin under which workers of this caller hold calls, and nobody else's do."""
        return msgspec.json.encode([self.tenant, self.subject]).decode()[:-1] + ","

    def has(self, holder: str | None) -> bool:
        """Whether that is a worker of this caller."""
        return holder is not None and holder.startswith(self.holders)

    @property
    def references(self) -> set[str]:
        """Of the tools that it serves."""
        return set(map(reference_of, self.serves))

    def may_touch(self, call: CallState) -> bool:
        """A session's own requests are its owner's. A call of a worker's tool is for those to whom it was made, which
        are not all who offer a tool of that name by now; and for whoever holds it, though their definition has changed
        since."""
        if call.queue == "worker":
            may = self.tenants is None or call.tenant == self.tenant or call.tenant in self.tenants
            return may and (call.offer in self.serves or (self.has(call.holder) and call.reference in self.references))
        return call.queue == "session" and self._owns(call)

    def may_see(self, call: CallState) -> bool:
        """Its owner may look at any of a session's requests, whoever runs it."""
        return self.may_touch(call) or (call.session != DIRECT and self._owns(call))

    def _owns(self, call: CallState) -> bool:
        return (call.tenant, call.subject) == (self.tenant, self.subject)


# -- writes of those who work on requests, who know a call by its session and its id there ---------------------------


class HeartbeatWrite(Struct, frozen=True):
    """Somebody works on a request. The first heartbeat claims it, the later ones renew the lease."""

    session: str
    request: str
    who: Claimant
    attempt: int | None = None
    """The attempt that the writer says is its own. None: whichever this writer holds."""
    heartbeat: float | None = None
    """The caller's own clock: kept and shown, never judged by."""
    progress: bytes | None = None
    claims: bool = True
    """Whether it may claim what nobody has. One among many beats only renews."""


class Answer(Struct, frozen=True):
    """Whoever works on a request says how it ended."""

    session: str
    request: str
    who: Claimant
    ending: Ending
    digest: bytes
    """Of what was answered, so that the same answer sent again is accepted and another one is refused."""
    attempt: int | None = None


class HandBack(Struct, frozen=True):
    """Somebody stops working on a request and leaves it to others."""

    session: str
    request: str
    who: Claimant
    attempt: int | None = None


# -- writes of nodes about the calls that they run themselves ---------------------------------------------------------


class Finish(Struct, frozen=True):
    """An attempt ended on the node that ran it."""

    seq: int
    attempt: int
    node: str
    ending: Ending


class NodeHandBack(Struct, frozen=True):
    """A node that stops leaves one of its calls to another node, or to its own next start."""

    seq: int
    attempt: int
    node: str


class Ask(Struct, frozen=True):
    """A tool that runs on a node puts a question to its client."""

    seq: int
    attempt: int
    node: str


class QuestionsClosed(Struct, frozen=True):
    """None of the questions that a call asked is open any more."""

    seq: int


class Restart(Struct, frozen=True):
    """A node takes the next attempt at a call that nobody runs. `attempt` is the one that was made before."""

    seq: int
    attempt: int
    node: str


class GiveUp(Struct, frozen=True):
    """A node ends a call that nobody runs, and that cannot be run again, with an error."""

    seq: int
    attempt: int
    node: str
    ending: Ending


# -- writes of the server about any call ------------------------------------------------------------------------------


class Cancel(Struct, frozen=True):
    """Nobody wants the call's result any more: it ends, whoever runs it."""

    seq: int


class Decision(Struct, frozen=True):
    """What a call waited for has come, so that it goes on, or waits for something else `then`; or, with an ending, it
    never will. `queue_s` is how long the call may wait after this."""

    seq: int
    waiting_for: WaitingFor
    ending: Ending | None = None
    queue_s: float | None = None
    then: WaitingFor | None = None


class WaitForAccount(Struct, frozen=True):
    """A call that was about to begin lacks something: it waits for that, for `queue_s` at most; or, with an ending, it
    ends. Where it was claimed already, that attempt has not begun, and does not count."""

    seq: int
    attempt: int
    waiting_for: WaitingFor
    queue_s: float
    ending: Ending | None = None


class Resolve(Struct, frozen=True):
    """A person settles a call that ended as `outcome_unknown`: it ended so, or without an ending it is run again."""

    seq: int
    ending: Ending | None


class GoBack(Struct, frozen=True):
    """The ledger went back to a copy, in which this call had not ended; what became of it after that is not known.
    `attempt` is a number that none of its attempts has had, in this ledger or in the one that was replaced."""

    seq: int
    attempt: int


NodeWrite = Finish | NodeHandBack | Ask | QuestionsClosed | Restart | GiveUp
RequestWrite = HeartbeatWrite | Answer | HandBack
"""What those who work on requests write. Which of them may touch a call is `Claimant.may_touch`."""
ByNumber = Cancel | Decision | WaitForAccount | Resolve | GoBack | NodeWrite
"""What the server itself writes, which may touch any call."""
Write = RequestWrite | ByNumber
