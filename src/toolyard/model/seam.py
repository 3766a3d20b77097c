"""Time and ids come in here, so that a test can own them."""

import os
import time
from collections.abc import Callable

from msgspec import Struct


def random_id() -> str:
    """128 random bits. (`uuid4` costs seven times as much.)"""
    return os.urandom(16).hex()


class Seam(Struct, frozen=True):
    """`now` is the calendar's time in seconds, `monotonic` is for durations."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.perf_counter
    new_id: Callable[[], str] = random_id


SYSTEM = Seam()
