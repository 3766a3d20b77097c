"""Lists of tools as bytes, made once for each catalogue version and view, and answered with 304 where that will do."""

from hashlib import sha256

from ..catalogue import Catalogue
from ..model.call import ListTools
from ..wires.contract import Reply, Wire


class Listing:
    """Keeps what it made until the catalogue changes."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[tuple[str, Wire, bool], tuple[int, bytes, bytes]] = {}

    def reply(self, wire: Wire, command: ListTools, wanted: bytes | None, view: str = "all") -> Reply:
        """`wanted` is the client's If-None-Match. `view` names what this caller may see."""
        key = (view, wire, command.all_versions)
        made = self._made.get(key)
        if made is None or made[0] != self._catalogue.version:
            made = self._made[key] = self._make(wire, command)
        _, body, tag = made
        headers = [*wire.headers, (b"etag", tag), (b"cache-control", b"no-cache")]
        if wanted is not None and (wanted == b"*" or tag in wanted):
            return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _make(self, wire: Wire, command: ListTools) -> tuple[int, bytes, bytes]:
        tools = self._catalogue.all() if command.all_versions else self._catalogue.newest()
        body = wire.encode_list(tools)
        return self._catalogue.version, body, b'"' + sha256(body).hexdigest()[:32].encode() + b'"'
