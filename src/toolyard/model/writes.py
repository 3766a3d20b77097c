"""Where a call stands, and what a write about it does to that: the lifecycle's rules, as pure functions.

A store locks a call's row, hands its standing in here with the time by its own clock, and writes down what comes out.
So every store judges alike, and a late worker loses in one place. What is overdue is settled before anything else is
judged: a lease that ran out a moment ago is lost, whether or not anybody has noticed it yet.
"""

import re
from secrets import token_hex
from typing import Literal

import msgspec
from msgspec import Struct

from .call import LONGEST_CALL_ID
from .lifecycle import State
from .record import Ending, NewCall, Queue

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
    """How long a claim holds without a heartbeat, and how many may be lost before the call is given up."""

    lease_s: float = 30.0
    max_attempts: int = 3


class CallState(Struct):
    """What of a call changes while it lives."""

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
    waiting_for: str | None = None
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


class Claimant(Struct, frozen=True):
    """Whoever works on requests: `worker` tells apart those of one subject, `serves` are the tools it registered, and
    `tenants` those besides its own whose calls of them it may have. None: everybody's."""

    tenant: str
    subject: str
    worker: str = ""
    serves: frozenset[str] = frozenset()
    tenants: frozenset[str] | None = frozenset()

    @property
    def houses(self) -> list[str] | None:
        """The tenants whose calls it may have."""
        return None if self.tenants is None else sorted({self.tenant, *self.tenants})

    @property
    def holder(self) -> str:
        return msgspec.json.encode([self.tenant, self.subject, self.worker]).decode()

    def may_touch(self, call: CallState) -> bool:
        """A session's own requests are its owner's; a worker's tools are for those who serve them."""
        if call.queue == "worker":
            may = self.tenants is None or call.tenant == self.tenant or call.tenant in self.tenants
            return may and call.reference in self.serves
        return call.queue == "session" and self._owns(call)

    def may_see(self, call: CallState) -> bool:
        """Its owner may look at any of a session's requests, whoever runs it."""
        return self.may_touch(call) or (call.session != DIRECT and self._owns(call))

    def _owns(self, call: CallState) -> bool:
        return (call.tenant, call.subject) == (self.tenant, self.subject)


class HeartbeatWrite(Struct, frozen=True):
    """Somebody works on a request. The first one claims it."""

    session: str
    request: str
    who: Claimant
    attempt: int | None = None
    heartbeat: float | None = None
    """The caller's own clock: kept and shown, never judged by."""
    progress: bytes | None = None
    claims: bool = True
    """Whether it may claim what nobody has. One among many beats only renews."""


class Answer(Struct, frozen=True):
    """A request is done, or has failed."""

    session: str
    request: str
    who: Claimant
    ending: Ending
    digest: bytes
    attempt: int | None = None


class HandBack(Struct, frozen=True):
    """Somebody stops working on a request and leaves it to others."""

    session: str
    request: str
    who: Claimant
    attempt: int | None = None


class Cancel(Struct, frozen=True):
    """Nobody wants the result any more."""

    seq: int


class Decision(Struct, frozen=True):
    """What a call waited for has come, so it goes on, or waits for something else `then`; or, with an ending, never
    will. `queue_s` is how long it may then wait."""

    seq: int
    waiting_for: str
    ending: Ending | None = None
    queue_s: float | None = None
    then: str | None = None


class WaitForAccount(Struct, frozen=True):
    """A call that was about to begin lacks something: it waits for that, for `queue_s` at most; or, with an ending, it
    ends. Where it was claimed already, that attempt has not begun, and does not count."""

    seq: int
    attempt: int
    waiting_for: str
    queue_s: float
    ending: Ending | None = None


Write = HeartbeatWrite | Answer | HandBack | Cancel | Decision | WaitForAccount
ByNumber = Cancel | Decision | WaitForAccount
"""What the server itself writes, which may touch any call."""
