"""Where a request comes from, behind proxies."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from ..model.errors import SettingsError


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
