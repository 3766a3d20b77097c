"""trust/limits/credential_failures.py"""

from collections.abc import Callable, Mapping

from ..access.identity import CREDENTIAL_HEADERS
from .limits import network_of
from .meters import MINUTE_MS, Meter, refusal

Headers = Mapping[bytes, bytes]
MOST_KNOWN = 20_000


class CredentialFailures:
    """Credentials that were not valid, by address: after so many a minute, only those are looked at there that were
    good before. Whoever guesses learns nothing more, and whoever is behind the same address goes on."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and is never set."""
        self._per_minute, self._clock = per_minute, clock
        self._meters: dict[str, Meter] = {}
        self._good: dict[int, None] = {}
        """Addresses with credentials, by a hash that is of use to nobody else: what it lets pass is still verified."""
        self.is_watchful = False
        """Whether to remember who is let in: since the first failure."""

    def let_in(self, address: str, headers: Headers) -> None:
        """Somebody had good credentials."""
        good = _trace(address, headers)
        if good not in self._good:
            if len(self._good) >= MOST_KNOWN:
                self._good.pop(next(iter(self._good)))
            self._good[good] = None

    def refuse(self, address: str, headers: Headers) -> None:
        """Raises LimitReached."""
        meter = self._meters.get(network_of(address)) if self._meters else None
        if meter is not None:
            meter.advance(int(self._clock() * 1000), 0)
            if (wait_ms := meter.wait_ms()) and _trace(address, headers) not in self._good:
                why = f"{self._per_minute} failures a minute from one address"
                raise refusal(wait_ms, f"wrong credentials: {why}")
            if not meter.debt:
                del self._meters[network_of(address)]

    def note(self, address: str, headers: Headers) -> None:
        """One more."""
        if not address:
            return
        self.is_watchful = True
        self._good.pop(_trace(address, headers), None)
        house, now_ms = network_of(address), int(self._clock() * 1000)
        meter = self._meters.get(house)
        if meter is None:
            if len(self._meters) >= MOST_KNOWN:
                self._meters.pop(next(iter(self._meters)))
            meter = self._meters[house] = Meter(b"", now_ms, 0, self._per_minute)
        meter.advance(now_ms, 0)
        meter.take()
        meter.debt = min(meter.debt, 2 * self._per_minute * MINUTE_MS)  # never away for longer than a minute or two


def _trace(address: str, headers: Headers) -> int:
    return hash((network_of(address), *map(headers.get, CREDENTIAL_HEADERS)))
