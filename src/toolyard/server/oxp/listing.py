"""Lists of tools as bytes, made once for each catalogue version and view, and answered with 304 where that will do."""

from hashlib import sha256

from ...catalogue import Catalogue
from ...model.call import ListTools
from ...model.caller import View
from ...wires.contract import OxpFamilyWire, Reply

MOST_LISTS = 256


class Listing:
    """The lists of tools as replies, kept until the catalogue changes. Callers who see the same tools share one:
    a list of a thousand tools is encoded once, and not for each request."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[tuple[View, OxpFamilyWire, bool], tuple[int, bytes, bytes]] = {}

    def reply(self, wire: OxpFamilyWire, command: ListTools, wanted: bytes | None, view: View) -> Reply:
        """`wanted` is the client's If-None-Match."""
        key = (view, wire, command.all_versions)
        made = self._made.get(key)
        if made is None or made[0] != self._catalogue.version:
            made = self._make(wire, command, view)
            if len(self._made) >= MOST_LISTS:
                self._made.pop(next(iter(self._made)))
            self._made[key] = made
        _, body, tag = made
        headers = [*wire.headers, (b"etag", tag), (b"cache-control", b"no-cache")]
        if wanted is not None and (wanted == b"*" or tag in wanted):
            return Reply(304, b"", headers)
        return Reply(200, body, headers)

    def _make(self, wire: OxpFamilyWire, command: ListTools, view: View) -> tuple[int, bytes, bytes]:
        tools = self._catalogue.all(view) if command.all_versions else self._catalogue.newest(view)
        body = wire.encode_list(tools)
        return self._catalogue.version, body, b'"' + sha256(body).hexdigest()[:32].encode() + b'"'
