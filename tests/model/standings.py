"""Calls as they stand, and writes about them, for the tests of the rules."""

from typing import Any, TypeVar

from toolyard.model.judge import Judged, judge
from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.model.writes import Answer, CallState, Cancel, Claimant, HandBack, HeartbeatWrite, LeaseTerms, Write

T = TypeVar("T")
NOW = 1000.0
LIMITS = LeaseTerms(lease_s=30.0, max_attempts=3)
ADA = Claimant("default", "ada")
SECOND = Claimant("default", "ada", worker="second")
DONE = Ending(State.COMPLETE, "success", 1.0, value=b"1")
FAILED = Ending(State.ERROR, "tool_failed", 1.0, error=b'{"message":"no"}')


def pending(**changes: Any) -> CallState:
    """A request that nobody has."""
    given: dict[str, Any] = {
        "seq": 1,
        "tenant": "default",
        "subject": "ada",
        "session": "s",
        "request": "r",
        "reference": "Kit.Tool@1.0.0",
        "offer": "Kit.Tool@1.0.0 ada first",
        "queue": "session",
        "on_lost": "rerun",
        "run_s": None,
        "created_at": NOW - 10,
        "deadline_at": None,
        "queue_until": None,
        "state": State.PENDING,
    }
    return CallState(**given | changes)


def processing(**changes: Any) -> CallState:
    """A request that Ada works on, her first attempt."""
    given: dict[str, Any] = {
        "state": State.PROCESSING,
        "attempt": 1,
        "holder": ADA.holder,
        "started_at": NOW - 5,
        "seen_at": NOW - 5,
        "lease_until": NOW + 25,
    }
    return pending(**given | changes)


def completed(**changes: Any) -> CallState:
    """A request that Ada answered."""
    return processing(**{"state": State.COMPLETE, "code": "success", "digest": b"body", "lease_until": None} | changes)


def ended(code: str | None, **changes: Any) -> CallState:
    """A request that ended as an error, by nobody's answer."""
    return processing(**{"state": State.ERROR, "code": code, "lease_until": None} | changes)


def beat(who: Claimant = ADA, attempt: int | None = None, **others: Any) -> HeartbeatWrite:
    return HeartbeatWrite("s", "r", who, attempt, **others)


def answer(who: Claimant = ADA, attempt: int | None = None, ending: Ending = DONE, digest: bytes = b"body") -> Answer:
    return Answer("s", "r", who, ending, digest, attempt)


def hand_back(who: Claimant = ADA, attempt: int | None = None) -> HandBack:
    return HandBack("s", "r", who, attempt)


CANCEL = Cancel(1)


def judged(call: CallState, write: Write, at: float = NOW, limits: LeaseTerms = LIMITS) -> Judged:
    return judge(call, write, at, limits)


def there(value: T | None) -> T:
    assert value is not None
    return value
