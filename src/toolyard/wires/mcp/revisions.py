"""The revisions of MCP, and what each of them knows."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...version import VERSION
from .params import SERVER_INFO

_encode = msgspec.json.Encoder().encode
INFO = {"name": "toolyard", "title": "toolyard", "version": VERSION}
"""A server that nobody named."""


def _meta(info: Mapping[str, str]) -> bytes:
    return b'"_meta":' + _encode({SERVER_INFO: info})


class Revision(Struct, frozen=True):
    """One of them. What it does not know is not sent to its clients."""

    name: str
    titles: bool = True
    """Titles, output schemas, structured content and resource links."""
    icons: bool = True
    execution: bool = False
    """Tasks that a request asks for, and tools that say whether it may."""
    completes: bool = False
    """Addresses that a person is sent to have ids, and clients are told when the person is done."""
    is_modern: bool = False
    """Every request says who its client is; there is no handshake, and there are no requests from the server."""
    server: bytes = _encode(INFO)
    """Who answers, as JSON. In the newer era every result says it."""
    meta: bytes = _meta(INFO)
    """Just that, as the member of a result."""

    @property
    def server_info(self) -> dict[str, msgspec.Raw]:
        """The same, beside what else is in `_meta`."""
        return {SERVER_INFO: msgspec.Raw(self.server)}


R_2025_03_26 = Revision("2025-03-26", titles=False, icons=False)
R_2025_06_18 = Revision("2025-06-18", icons=False)
R_2025_11_25 = Revision("2025-11-25", execution=True, completes=True)
R_2026_07_28 = Revision("2026-07-28", is_modern=True)

REVISIONS = {each.name: each for each in (R_2026_07_28, R_2025_11_25, R_2025_06_18, R_2025_03_26)}
"""The newest first."""
HANDSHAKE = {name: each for name, each in REVISIONS.items() if not each.is_modern}
MODERN = {name: each for name, each in REVISIONS.items() if each.is_modern}


def spoken_by(info: Mapping[str, str]) -> dict[str, Revision]:
    """The revisions of the newer era, at the server that is called so."""
    return {name: replace(each, server=_encode(info), meta=_meta(info)) for name, each in MODERN.items()}


def negotiated(asked: str) -> Revision:
    """What `initialize` is answered with: the one asked for, or else the newest that has a handshake."""
    return HANDSHAKE.get(asked, R_2025_11_25)
