"""Time and ids come in here, so that a test can own them."""

import os
import time
from collections.abc import Callable

from msgspec import Struct

_ids: list[str] = []
os.register_at_fork(after_in_child=_ids.clear)


def random_id() -> str:
    """128 random bits. The system is asked for many at once: one by one, they cost more than a whole call does."""
    try:
        return _ids.pop()
    except IndexError:
        many = os.urandom(16 * 256).hex()
        _ids.extend(many[start : start + 32] for start in range(32, len(many), 32))
        return many[:32]


class Seam(Struct, frozen=True):
    """`now` is the calendar's time in seconds, `monotonic` is for durations."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.perf_counter
    new_id: Callable[[], str] = random_id


SYSTEM = Seam()
