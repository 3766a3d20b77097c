"""Local safety: a page in a browser must not reach a server on its visitor's machine, whatever name it found for it."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from ..model.errors import ForeignPage, Misdirected

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MOST_KNOWN = 1000


class Guard:
    """Checks where a request thinks it goes, and which page sent it."""

    def __init__(self, host: str, public_url: str | None, allowed: Sequence[str], origins: Sequence[str]) -> None:
        """`allowed`: other names of this server, and pages that may use it. `origins`: pages that may use it, with
        what they need for that; `*` is all of them."""
        self._is_local = host in ("localhost", "127.0.0.1", "::1")
        given = (*allowed, *origins, *([public_url] if public_url else ()))
        names = {urlsplit(each).hostname or each for each in given}
        self._names = frozenset({*LOOPBACK, *(f"[{name}]" if ":" in name else name for name in names)})
        self._any_page = "*" in origins
        self._known: set[tuple[bytes, bytes]] = set()
        self.knows_host = False
        """Whether the server listens by itself. Mounted in another app, names are that app's business."""

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raises Misdirected or ForeignPage."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin", b"")
        if (host, origin) in self._known:
            return
        if self._is_local and self.knows_host and _name(host.decode("latin-1")) not in self._names:
            raise Misdirected(f"Host {host.decode('latin-1')!r} is not a name of this server; add it to allowed_hosts")
        if origin and not self._may(origin.decode("latin-1"), host.decode("latin-1")):
            raise ForeignPage(f"Pages of {origin.decode('latin-1')!r} may not use this server; add it to cors_origins")
        if len(self._known) < MOST_KNOWN:
            self._known.add((host, origin))

    def _may(self, origin: str, host: str) -> bool:
        name = _name(origin.partition("://")[2])
        return self._any_page or name in self._names or (not self._is_local and name == _name(host))


def _name(host: str) -> str:
    """Without the port."""
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
