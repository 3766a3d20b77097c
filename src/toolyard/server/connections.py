"""How many connections there may be, in all and from one address, and how long one may leave unread what was written
to it."""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from ..trust.limits import house_of


class Patience(Struct, frozen=True):
    """How long a client may take for each part of its request, and of what it is sent."""

    header_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 30.0


class Connections:
    """Those that are open, by address. A trusted proxy's are many clients', so they are counted only in all."""

    def __init__(
        self,
        most: int | None = None,
        most_per_address: int | None = None,
        is_proxy: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self._most, self._most_per_address, self._is_proxy = most, most_per_address, is_proxy
        self._by_house: Counter[str] = Counter()
        self._open = 0

    def enter(self, address: str) -> bool:
        """Whether there is room for it. It counts either way, until it leaves."""
        house = house_of(address)
        self._open += 1
        self._by_house[house] += 1
        if self._most is not None and self._open > self._most:
            return False
        if self._most_per_address is None or self._by_house[house] <= self._most_per_address:
            return True
        return not address or self._is_proxy(address)

    def leave(self, address: str) -> None:
        house = house_of(address)
        self._open -= 1
        self._by_house[house] -= 1
        if not self._by_house[house]:
            del self._by_house[house]
