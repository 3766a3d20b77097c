"""Local safety: a page in a browser must not reach a server on its visitor's machine, whatever name it found for it."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ...wires.mcp.envelope import INVALID_REQUEST, RpcError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """Checks where a request thinks it goes, and which page sent it."""

    def __init__(self, host: str, public_url: str | None, allowed: Sequence[str]) -> None:
        """`allowed`: other names of this server, and origins of pages that may use it."""
        self._is_local = host in ("localhost", "127.0.0.1", "::1")
        names = {urlsplit(each).hostname or each for each in (*allowed, *([public_url] if public_url else ()))}
        self._names = frozenset({*LOOPBACK, *(f"[{name}]" if ":" in name else name for name in names)})
        self._known: set[tuple[bytes, bytes]] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises RpcError."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin", b"")
        if (host, origin) in self._known:
            return
        if self._is_local and _name(host.decode("latin-1")) not in self._names:
            raise RpcError(
                INVALID_REQUEST,
                f"Host {host.decode('latin-1')!r} is not a name of this server; add it to allowed_hosts",
                status=421,
            )
        if origin and not self._may(origin.decode("latin-1"), host.decode("latin-1")):
            raise RpcError(
                INVALID_REQUEST,
                f"Pages of {origin.decode('latin-1')!r} may not use this server; add it to allowed_hosts",
                status=403,
            )
        if len(self._known) < 1000:
            self._known.add((host, origin))

    def _may(self, origin: str, host: str) -> bool:
        name = _name(origin.partition("://")[2])
        return name in self._names or (not self._is_local and name == _name(host))


def _name(host: str) -> str:
    """Without the port."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
