"""How many connections there may be, in all and from one address, and how long one may leave unread what was written
to it.

Where a request comes from, behind proxies.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from msgspec import Struct

from ...model.errors import SettingsError
from ...trust.limits.limits import network_of


class ReadTimeouts(Struct, frozen=True):
    """How long a client may take for each part of its request, and of what it is sent."""

    header_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 30.0


class ConnectionLimits:
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
        house = network_of(address)
        self._open += 1
        self._by_house[house] += 1
        if self._most is not None and self._open > self._most:
            return False
        if self._most_per_address is None or self._by_house[house] <= self._most_per_address:
            return True
        return not address or self._is_proxy(address)

    def leave(self, address: str) -> None:
        house = network_of(address)
        self._open -= 1
        self._by_house[house] -= 1
        if not self._by_house[house]:
            del self._by_house[house]


class Proxies:
    """Those whose word counts for where a request comes from."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._trusted = [_network(each) for each in trusted]

    def address(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
        """The client's: the last one in `X-Forwarded-For` that is no trusted proxy's."""
        client = scope.get("client")
        address: str = client[0] if client else ""
        if not self._trusted or b"x-forwarded-for" not in headers or not self.is_trusted(address):
            return address
        said = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
        for each in reversed(said.decode("latin-1").split(",")):
            address = each.strip()
            if not self.is_trusted(address):
                break
        return _checked(address) or str(client[0] if client else "")

    def is_trusted(self, address: str) -> bool:
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self._trusted)


def _checked(address: str) -> str:
    """Nothing where a proxy passed nonsense on."""
    try:
        return str(ip_address(address))
    except ValueError:
        return ""


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(f"trusted_proxies: {text!r} is not an address or a network such as 10.0.0.0/8") from None
