"""Calls as they stand, and writes about them, for the tests of the rules."""

from typing import Any, TypeVar

from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.model.standing import Answer, Beat, Cancel, HandBack, Judged, Limits, Standing, Who, Write, judge

T = TypeVar("T")
NOW = 1000.0
LIMITS = Limits(lease_s=30.0, max_attempts=3)
ADA = Who("default", "ada")
SECOND = Who("default", "ada", worker="second")
DONE = Ending(State.COMPLETE, "success", 1.0, value=b"1")
FAILED = Ending(State.ERROR, "tool_failed", 1.0, error=b'{"message":"no"}')


def pending(**changes: Any) -> Standing:
    """A request that nobody has."""
    given: dict[str, Any] = {
        "seq": 1,
        "tenant": "default",
        "subject": "ada",
        "session": "s",
        "request": "r",
        "reference": "Kit.Tool@1.0.0",
        "queue": "session",
        "on_lost": "rerun",
        "run_s": None,
        "created_at": NOW - 10,
        "deadline_at": None,
        "queue_until": None,
        "state": State.PENDING,
    }
    return Standing(**given | changes)


def processing(**changes: Any) -> Standing:
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


def completed(**changes: Any) -> Standing:
    """A request that Ada answered."""
    return processing(**{"state": State.COMPLETE, "code": "success", "digest": b"body", "lease_until": None} | changes)


def ended(code: str | None, **changes: Any) -> Standing:
    """A request that ended as an error, by nobody's answer."""
    return processing(**{"state": State.ERROR, "code": code, "lease_until": None} | changes)


def beat(who: Who = ADA, attempt: int | None = None, **others: Any) -> Beat:
    return Beat("s", "r", who, attempt, **others)


def answer(who: Who = ADA, attempt: int | None = None, ending: Ending = DONE, digest: bytes = b"body") -> Answer:
    return Answer("s", "r", who, ending, digest, attempt)


def hand_back(who: Who = ADA, attempt: int | None = None) -> HandBack:
    return HandBack("s", "r", who, attempt)


CANCEL = Cancel(1)


def judged(call: Standing, write: Write, at: float = NOW, limits: Limits = LIMITS) -> Judged:
    return judge(call, write, at, limits)


def there(value: T | None) -> T:
    assert value is not None
    return value
