"""Which hosts are this machine, and which URLs secrets may be sent to.

Binding, `Host` and `Origin` checks, rate limits, issuers, providers and the client all ask here: where two definitions
of loopback differ, one of them is a hole.
"""

import re
import socket
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

LOCALHOST = "localhost"
"""The one name that is this machine everywhere."""
_old_ipv4 = re.compile(r"[0-9a-fx]+(\.[0-9a-fx]+){0,3}").fullmatch
"""What the system may also take for an IPv4 address: 127.1, 0x7f.0.0.1, 2130706433."""
_host_and_port = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/?#@\[\]\\]+)(?::[0-9]{0,5})?").fullmatch


@lru_cache(maxsize=256)  # a mounted app asks for each request, and of the same few hosts
def is_loopback(host: str) -> bool:
    """Whether this host, as it stands in a setting, a URL or a `Host` header, can only be this machine. Any name other
    than `localhost` is whatever somebody's DNS says, and so is not."""
    # [::1] as URLs have it, ::1%lo with a zone, and localhost. with the root's dot are the same hosts without these.
    name = host.strip("[]").partition("%")[0].removesuffix(".").lower()
    if name == LOCALHOST:
        return True
    if ":" not in name:
        # The pattern is asked first: inet_aton also takes an address with anything behind a space.
        return bool(_old_ipv4(name)) and _is_loopback4(name)
    try:
        address = IPv6Address(name)
    except ValueError:
        return False
    # ::ffff:127.0.0.1 reaches this machine, too, and older versions of Python do not count it as loopback.
    return (address.ipv4_mapped or address).is_loopback


def _is_loopback4(name: str) -> bool:
    try:
        return IPv4Address(socket.inet_aton(name)).is_loopback
    except OSError:
        return False


def host_in(authority: str) -> str:
    """The host of what may also have a port, as a `Host` header does; nothing where it is anything else. What only
    begins like an address, `[::1].example.com` or `127.0.0.1:80.example.com`, is none."""
    found = _host_and_port(authority)
    return "" if found is None else found[1]


def host_of(url: str) -> str:
    """Nothing where it has none."""
    try:
        return host_in(urlsplit(url).netloc.rpartition("@")[2])
    except ValueError:
        return ""


def is_safe(url: str) -> bool:
    """Whether what is sent to this URL can be read by nobody on the way: it is TLS, or stays on this machine."""
    host, scheme = host_of(url), url.partition("://")[0].lower()
    return bool(host) and (scheme == "https" or (scheme == "http" and is_loopback(host)))
