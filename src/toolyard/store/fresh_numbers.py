"""Numbers that were never given before, for a ledger that went back to a copy of itself.

What was numbered after the copy was made is not in it: calls, attempts, events of sessions. Whoever has one of those
numbers at hand (a person, a worker, a client that comes back for more) must not be taken to mean what comes next. So
the ledger counts on from a number that is made of the time. As long as no ledger gives more numbers a second than are
reckoned with here, none reaches those that a later moment stands for, however often it goes back to the same copy.
"""

from msgspec import Struct

SINCE = 1_735_689_600.0
"""The beginning of 2025, in seconds since 1970."""
CALLS_A_SECOND, EVENTS_A_SECOND = 1_000_000, 1_000
"""More than a ledger takes, and than a session has. Of a call's attempts there is one a second: the stores have 32 bits
for them."""


class FreshNumbers(Struct, frozen=True):
    """After which a ledger counts on, unless it was further already."""

    call: int
    attempt: int
    event: int


def fresh_numbers(now: float) -> FreshNumbers:
    """For a ledger that goes back to a copy at that time."""
    passed = max(0.0, now - SINCE)
    return FreshNumbers(int(passed * CALLS_A_SECOND), int(passed), int(passed * EVENTS_A_SECOND))
