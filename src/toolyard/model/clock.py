"""Time and ids come in here, so that a test can own them."""

import os
import time
from collections.abc import Callable

from msgspec import Struct

_ids: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)


def random_id() -> str:
    """The time, a count and 76 random bits: one after another in order, which makes them cheap to index. They are made
    many at once: to ask the system for random bits one by one would cost more than a whole call does."""
    try:
        return _ids.pop()
    except IndexError:
        start, many = f"{int(time.time() * 1e6):011x}"[-11:], os.urandom(10 * 256).hex()
        _ids.extend(f"{start}{count:02x}{many[count * 19 : count * 19 + 19]}" for count in range(255, 0, -1))
        return f"{start}00{many[:19]}"


class Clock(Struct, frozen=True):
    """`now` is the calendar's time in seconds, `monotonic` is for durations."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.perf_counter
    new_id: Callable[[], str] = random_id


SYSTEM_CLOCK = Clock()
