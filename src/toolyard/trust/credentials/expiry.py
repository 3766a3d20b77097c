"""What was begun with credentials and goes on by itself, as a stream does, ends with them: when they expire, and when
their key is revoked. (Whoever is answered once is answered whole.)"""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from ...model.caller import Caller
from .api_keys import ApiKeys

LOOK_AGAIN_S = 3600.0
"""A clock that is set meanwhile is noticed within this time."""


class Watched(Struct, eq=False):
    """Something that goes on, and how it is ended."""

    caller: Caller
    end: Callable[[], object]
    timer: asyncio.TimerHandle | None = None


class CredentialExpiry:
    """Ends what goes on. Everything is done on the loop."""

    def __init__(self, keys: ApiKeys, now: Callable[[], float]) -> None:
        self._keys, self._now = keys, now
        self._watched: set[Watched] = set()
        keys.when_read = self._look

    def watch(self, caller: Caller, end: Callable[[], object]) -> Callable[[], None]:
        """Has `end` called once the caller's credentials are over, perhaps now. Returns what to call when nobody needs
        that any more."""
        watched = Watched(caller, end)
        if caller.digest or caller.expires is not None:
            self._watched.add(watched)
            self._check(watched)
        return lambda: self._forget(watched)

    def _look(self) -> None:
        for watched in [each for each in self._watched if each.caller.digest]:
            self._check(watched)

    def _check(self, watched: Watched) -> None:
        """Now, and again when they expire."""
        caller = watched.caller
        left_s = LOOK_AGAIN_S if caller.expires is None else caller.expires - self._now()
        if left_s <= 0 or (caller.digest and not self._keys.is_known(caller.digest)):
            self._forget(watched)
            watched.end()
        elif caller.expires is not None:
            self._stop_timer(watched)
            loop = asyncio.get_running_loop()
            watched.timer = loop.call_later(min(left_s, LOOK_AGAIN_S), self._check, watched)

    def _forget(self, watched: Watched) -> None:
        self._watched.discard(watched)
        self._stop_timer(watched)

    def _stop_timer(self, watched: Watched) -> None:
        if watched.timer is not None:
            watched.timer.cancel()
            watched.timer = None
