"""Ends what was begun with credentials and goes on by itself, as a stream does, when those credentials end: when they
expire, when their key is revoked, and when tokens like theirs are not taken any more. Whoever is answered once is
answered whole.

What goes on asks to be watched, and gives the function that ends it; a timer waits for the expiry, and each reading of
the ledger shows which keys are still there.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from ...model.caller import Caller
from .api_keys import ApiKeys

LOOK_AGAIN_S = 3600.0
"""A clock that is set meanwhile is noticed within this time."""
MOST_ENDED = 10_000


class Watched(Struct, eq=False):
    """Something that goes on with a caller's credentials, and how it is ended."""

    caller: Caller
    end: Callable[[], object]
    timer: asyncio.TimerHandle | None = None


class CredentialExpiry:
    """Ends everything that goes on with credentials that have ended. To be used on the event loop alone."""

    def __init__(self, keys: ApiKeys, now: Callable[[], float]) -> None:
        self._keys, self._now = keys, now
        self._watched: set[Watched] = set()
        self._ended: dict[int, Caller] = {}
        """Who is let in no more, by identity. A request that was begun by one of them may still be on its way."""
        keys.tell_when_read(self._look)

    def watch(self, caller: Caller, end: Callable[[], object]) -> Callable[[], None]:
        """Has `end` called once the caller's credentials are over, perhaps now. Returns the function to call when
        nobody needs that any more."""
        watched = Watched(caller, end)
        # All others never end: they have no credentials.
        if caller.digest or caller.expires is not None:
            self._watched.add(watched)
            self._check(watched)
        return lambda: self._forget(watched)

    def end_tokens(self, over: Sequence[Caller], kept: Sequence[Caller]) -> None:
        """Tokens are verified in another way from now on: whatever goes on with one that is not taken any more ends,
        and so does what goes on with one that nobody has verified for a while."""
        known = set(map(_holder, kept))
        going_on = [each.caller for each in self._watched if not each.caller.digest]
        for caller in (*over, *(each for each in going_on if _holder(each) not in known)):
            if len(self._ended) >= MOST_ENDED:
                del self._ended[next(iter(self._ended))]
            self._ended[id(caller)] = caller
        for watched in list(self._watched):  # a copy: what ends forgets itself
            self._check(watched)

    def _look(self) -> None:
        """The ledger was read: some keys may not be there any more."""
        # A copy: what ends forgets itself.
        for watched in [each for each in self._watched if each.caller.digest]:
            self._check(watched)

    def _check(self, watched: Watched) -> None:
        """Ends it if its credentials are over; or else looks again when they expire. Time is looked at every hour at
        least, because the clock by which credentials expire may be set."""
        caller = watched.caller
        left_s = LOOK_AGAIN_S if caller.expires is None else caller.expires - self._now()
        if id(caller) in self._ended or left_s <= 0 or (caller.digest and not self._keys.is_known(caller.digest)):
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


def _holder(caller: Caller) -> tuple[str, str, float | None]:
    """Whose token it is, and which: two of the same person expire at different times."""
    return caller.tenant, caller.subject, caller.expires
