"""What a ledger should say of a call: its life in few words, written apart from the rules that the stores use."""

import json
from dataclasses import dataclass

from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord
from toolyard.model.writes import Claimant

from .ledgers import TERMS

ENDS = {
    "success": "completed",
    "tool_failed": "failed",
    "cancelled": "cancelled",
    "abandoned": "abandoned",
    "timed_out": "abandoned",
    "outcome_unknown": "abandoned",
}
"""How a call ended, and what whoever comes later is told."""


@dataclass
class Expected:
    """One call."""

    seq: int
    queue: str
    session: str | None
    request: str
    fingerprint: bytes
    on_lost: str
    run_s: float | None
    deadline: float
    state: State = State.PENDING
    attempt: int = 0
    losses: int = 0
    holder: str | None = None
    lease: float = 0.0
    run: float | None = None
    code: str | None = None
    value: bytes | None = None
    digest: bytes | None = None

    @property
    def is_over(self) -> bool:
        return self.code is not None

    def agrees_with(self, row: CallRecord) -> bool:
        said = (row.state, row.attempt, row.losses, row.code, row.value)
        if said != (self.state, self.attempt, self.losses, self.code, self.value):
            return False
        if self.state is not State.PROCESSING:
            return True
        return row.holder == self.holder and (self.queue == "node" or row.lease_until == self.lease)

    # -- what happens to it -----------------------------------------------------------------------

    def time_passes(self, now: float) -> None:
        """Whoever looks at it to change it sees this first."""
        if self.is_over:
            return
        if self.deadline <= now:
            self.ends("timed_out")
        elif self.state is State.PROCESSING and self.queue != "node":
            if self.run is not None and self.run <= now:
                self.ends("timed_out")
            elif self.lease <= now:
                self.is_lost()

    def is_lost(self) -> None:
        self.losses += 1
        if self.on_lost == "unknown":
            self.ends("outcome_unknown")
        elif self.losses == TERMS.max_attempts:
            self.ends("abandoned")
        else:
            self.is_given_back()

    def is_given_back(self) -> None:
        self.state, self.holder = State.PENDING, None

    def is_claimed(self, holder: str, now: float) -> None:
        self.state, self.holder, self.attempt = State.PROCESSING, holder, self.attempt + 1
        self.is_renewed(now, moves=True)

    def is_renewed(self, now: float, moves: bool) -> None:
        self.lease = now + TERMS.lease_s
        if moves and self.run_s is not None:
            self.run = now + self.run_s

    def ends(self, code: str, value: bytes | None = None, digest: bytes | None = None) -> None:
        self.state = State.COMPLETE if code == "success" else State.ERROR
        self.code, self.value, self.digest = code, value, digest

    # -- what is said of it by those who work on it -------------------------------------------------

    def beats(self, who: Claimant, attempt: int | None, moves: bool, now: float) -> str | None:
        """Why not, if not."""
        self.time_passes(now)
        if self.code == "cancelled":
            return "cancelled"
        if self.state is State.PENDING and attempt is None:
            self.is_claimed(who.holder, now)
        elif refused := self.refuses(who, attempt):
            return refused
        self.is_renewed(now, moves)
        return None

    def is_answered(
        self, who: Claimant, attempt: int | None, answer: tuple[str, bytes | None], digest: bytes, now: float
    ) -> str | None:
        self.time_passes(now)
        if self.is_over:
            if attempt is not None and attempt != self.attempt:
                return "stale_attempt"
            if not self.is_held_by(who, attempt) or self.digest is None:
                return ENDS[self.code or ""]
            if digest == self.digest:
                return None
            return "conflict" if self.code == "success" else ENDS[self.code or ""]
        if self.state is State.PENDING and attempt is None:
            self.is_claimed(who.holder, now)
        elif refused := self.refuses(who, attempt):
            return refused
        self.ends(*answer, digest)
        return None

    def is_left(self, who: Claimant, attempt: int | None, now: float) -> str | None:
        self.time_passes(now)
        if refused := self.refuses(who, attempt):
            return refused
        self.is_given_back()
        return None

    def is_cancelled(self, now: float) -> str | None:
        self.time_passes(now)
        if self.is_over:
            return ENDS[self.code or ""]
        self.ends("cancelled")
        return None

    def refuses(self, who: Claimant, attempt: int | None) -> str | None:
        if attempt is not None and attempt != self.attempt:
            return "stale_attempt"
        if self.is_over:
            return ENDS[self.code or ""]
        if self.state is State.PENDING:
            return "stale_attempt"
        return None if self.is_held_by(who, attempt) else "held"

    def is_held_by(self, who: Claimant, attempt: int | None) -> bool:
        """With the attempt's number, by any worker of the same caller."""
        if attempt is None or self.holder is None:
            return who.holder == self.holder
        tenant, subject, _ = json.loads(self.holder)
        return (str(tenant), str(subject)) == (who.tenant, who.subject)

    # -- what the nodes do with it ------------------------------------------------------------------

    def is_run_by(self, node: str, attempt: int) -> bool:
        running = self.queue == "node" and self.state is State.PROCESSING
        return running and (self.holder, self.attempt) == (node, attempt)

    def is_finished(self, node: str, attempt: int, code: str, value: bytes | None) -> bool:
        if not self.is_run_by(node, attempt):
            return False
        self.ends(code, value)
        return True

    def is_handed_back(self, node: str, attempt: int) -> None:
        if self.is_run_by(node, attempt):
            self.is_given_back()

    def is_adrift(self, node: str) -> bool:
        """Nobody runs it, as that node sees it: the only one that is alive."""
        return self.queue == "node" and not self.is_over and self.holder != node

    def is_restarted(self, node: str, attempt: int, now: float) -> int | None:
        if not self.is_adrift(node) or attempt != self.attempt:
            return None
        self.losses += self.state is State.PROCESSING
        self.is_claimed(node, now)
        return self.attempt

    def is_given_up(self, node: str, attempt: int, code: str) -> bool:
        if not self.is_adrift(node) or attempt != self.attempt:
            return False
        self.losses += self.state is State.PROCESSING
        self.ends(code)
        return True
