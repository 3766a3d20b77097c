"""What bounds connections: how many there may be, in all and from one address, how long a client may take for its part
of a request, and whose address it is that a trusted proxy speaks for.

`uvicorn_protocol` asks for each connection; `shell` asks for each request whose address matters.
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
    """Counts the connections that are open, in all and by the network that they come from. A trusted proxy's are many
    clients', so they are counted only in all."""

    def __init__(
        self,
        most: int | None = None,
        most_per_address: int | None = None,
        is_proxy: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self.most, self.most_per_address, self._is_proxy = most, most_per_address, is_proxy
        self._by_network: Counter[str] = Counter()
        self._open = 0

    def enter(self, address: str) -> bool:
        """Counts a connection, until it leaves, and says whether there was room for it. One that is refused counts as
        well, since it is open until its refusal is sent."""
        network = network_of(address)
        self._open += 1
        self._by_network[network] += 1
        if self.most is not None and self._open > self.most:
            return False
        if self.most_per_address is None or self._by_network[network] <= self.most_per_address:
            return True
        return not address or self._is_proxy(address)  # asked only now: to look networks up costs more than to count

    def leave(self, address: str) -> None:
        """A connection is closed."""
        network = network_of(address)
        self._open -= 1
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]


class Proxies:
    """The proxies of the setting `trusted_proxies`, whose word counts for where a request comes from."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self.trusted = [_network(each) for each in trusted]

    def address(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> str:
        """The client's address: the last one in `X-Forwarded-For` that is no trusted proxy's. What stands before it,
        the client may have written itself. Where the header has no address there, it is the connection's own."""
        client = scope.get("client")
        address: str = client[0] if client else ""
        if not self.trusted or b"x-forwarded-for" not in headers or not self.is_trusted(address):
            return address
        # The header may be there several times, which is the same as one with commas (RFC 9110, section 5.3).
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
        return any(ip in network for network in self.trusted)


def _checked(address: str) -> str:
    """An address in its usual spelling; nothing where a proxy passed nonsense on."""
    try:
        return str(ip_address(address))
    except ValueError:
        return ""


def _network(text: str) -> IPv4Network | IPv6Network:
    """An address or a network of the settings. Raises SettingsError."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise SettingsError(f"trusted_proxies: {text!r} is not an address or a network such as 10.0.0.0/8") from None
