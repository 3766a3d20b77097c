"""The revisions of MCP, and what each of them knows.

Everything that differs between revisions is asked of a `Revision`, so that a further one is a row here.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...version import VERSION
from .params import SERVER_INFO

_encode = msgspec.json.Encoder().encode
INFO = {"name": "toolyard", "title": "toolyard", "version": VERSION}
"""How a server calls itself that nobody gave a name."""


def _meta(info: Mapping[str, str]) -> bytes:
    return b'"_meta":' + _encode({SERVER_INFO: info})


class Revision(Struct, frozen=True):
    """One revision of MCP. What it does not know is not sent to its clients."""

    name: str
    titles: bool = True
    """Whether it has titles, output schemas, structured content and resource links."""
    icons: bool = True
    """Whether it has icons, and modes of elicitation."""
    execution: bool = False
    """Whether a request may ask for a task, and tools say whether it may."""
    completes: bool = False
    """Whether pages that a person is sent to have ids, and clients are notified when the person is done."""
    is_modern: bool = False
    """Whether it is of the newer era: every request says who its client is, there is no handshake, and the server sends
    no requests."""
    server: bytes = _encode(INFO)
    """The name and version of the server, as JSON. In the newer era every result has it."""
    meta: bytes = _meta(INFO)
    """The member `_meta` of a result that has nothing else in it, encoded in advance."""

    @property
    def server_info(self) -> dict[str, msgspec.Raw]:
        """The server's name and version as a member of `_meta`, for results that have more in it."""
        return {SERVER_INFO: msgspec.Raw(self.server)}


R_2025_03_26 = Revision("2025-03-26", titles=False, icons=False)
R_2025_06_18 = Revision("2025-06-18", icons=False)
R_2025_11_25 = Revision("2025-11-25", execution=True, completes=True)
R_2026_07_28 = Revision("2026-07-28", is_modern=True)

REVISIONS = {each.name: each for each in (R_2026_07_28, R_2025_11_25, R_2025_06_18, R_2025_03_26)}
"""All revisions by name, the newest first."""
HANDSHAKE = {name: each for name, each in REVISIONS.items() if not each.is_modern}
MODERN = {name: each for name, each in REVISIONS.items() if each.is_modern}


def spoken_by(info: Mapping[str, str]) -> dict[str, Revision]:
    """The revisions of the newer era, for a server of this name and version."""
    return {name: replace(each, server=_encode(info), meta=_meta(info)) for name, each in MODERN.items()}


def negotiated(asked: str) -> Revision:
    """The revision that `initialize` is answered with: the one asked for, or else the newest that has a handshake."""
    return HANDSHAKE.get(asked, R_2025_11_25)
