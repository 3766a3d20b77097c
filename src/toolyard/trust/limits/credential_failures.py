"""Wrong credentials are counted by the address that they come from, so that keys cannot be guessed at full speed.

An address that had too many is not locked out, for it may be the proxy of a whole office: credentials that were good
there before are still looked at, and all others are refused unseen until some time has passed.
"""

from collections.abc import Callable, Mapping

from ..access.identity import CREDENTIAL_HEADERS
from .limits import network_of
from .meters import MINUTE_MS, Meter, refusal

Headers = Mapping[bytes, bytes]
MOST_KNOWN = 20_000
"""Addresses, and good credentials, that are remembered: whoever has many addresses must not fill the memory."""


class CredentialFailures:
    """Counts credentials that were not valid, by address: after `per_minute` of them, only those are looked at there
    that were good before. Whoever guesses learns nothing more, and whoever is behind the same address goes on."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and is never set, as `time.monotonic` does."""
        self._per_minute, self._clock = per_minute, clock
        self._meters: dict[str, Meter] = {}
        self._good: dict[int, None] = {}
        """Pairs of an address and its good credentials, as Python's own hash of them. A short hash will do, since what
        it lets pass is still verified; and no credential is kept in memory for this."""
        self.is_watchful = False
        """Whether to remember good credentials: only since the first failure, so that it costs nothing before."""

    def let_in(self, address: str, headers: Headers) -> None:
        """Remembers credentials that were good at an address."""
        good = _trace(address, headers)
        if good not in self._good:
            if len(self._good) >= MOST_KNOWN:
                self._good.pop(next(iter(self._good)))
            self._good[good] = None

    def refuse(self, address: str, headers: Headers) -> None:
        """Raises LimitReached where an address had too many failures, and these credentials were not good there
        before. Asked before they are looked at."""
        meter = self._meters.get(network_of(address)) if self._meters else None
        if meter is not None:
            meter.advance(int(self._clock() * 1000), 0)
            if (wait_ms := meter.wait_ms()) and _trace(address, headers) not in self._good:
                why = f"{self._per_minute} failures a minute from one address"
                raise refusal(wait_ms, f"wrong credentials: {why}")
            if not meter.debt:
                del self._meters[network_of(address)]

    def note(self, address: str, headers: Headers) -> None:
        """Counts a failure at an address, and forgets that these credentials were good there, if they were."""
        if not address:
            return
        self.is_watchful = True
        self._good.pop(_trace(address, headers), None)
        network, now_ms = network_of(address), int(self._clock() * 1000)
        meter = self._meters.get(network)
        if meter is None:
            if len(self._meters) >= MOST_KNOWN:
                self._meters.pop(next(iter(self._meters)))
            meter = self._meters[network] = Meter(b"", now_ms, 0, self._per_minute)
        meter.advance(now_ms, 0)
        meter.take()
        # However many failures there were, an address is back within a minute or two: it may be given to others.
        meter.debt = min(meter.debt, 2 * self._per_minute * MINUTE_MS)


def _trace(address: str, headers: Headers) -> int:
    """Credentials at an address, in a form that shows neither."""
    return hash((network_of(address), *map(headers.get, CREDENTIAL_HEADERS)))
