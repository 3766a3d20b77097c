"""Time and new ids. The server's parts are handed a `Clock` and ask nothing else, so that a test owns both."""

import os
import time
from collections.abc import Callable

from msgspec import Struct

_ids: list[str] = []
"""Ids that were made in advance, the next one last."""
# A forked child must not hand out the ids that its parent hands out, too.
os.register_at_fork(after_in_child=_ids.clear)


def random_id() -> str:
    """A new id: the time in microseconds, a count and 68 random bits, in hexadecimal. Ids that are made one after the
    other are in order, until the year 2112, which makes them cheap to index: the ledger finds a block by it. They are
    made 256 at a time, because each request to the system for random bits costs time that a call would notice."""
    try:
        return _ids.pop()
    except IndexError:
        start, many = f"{int(time.time() * 1e6):013x}"[-13:], os.urandom(9 * 256).hex()
        _ids.extend(f"{start}{count:02x}{many[count * 17 : count * 17 + 17]}" for count in range(255, 0, -1))
        return f"{start}00{many[:17]}"


class Clock(Struct, frozen=True):
    """The source of time and ids: `now` is the time of day in seconds since 1970, `monotonic` is for durations."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.perf_counter
    new_id: Callable[[], str] = random_id


SYSTEM_CLOCK = Clock()
