"""`tools/list`, in pages that are made once for each state of the catalogue and each view of it."""

from msgspec import UNSET

from ....catalogue import Catalogue
from ....model.caller import View
from ....model.tool import REFERENCE
from ....text import base64url
from ....wires.mcp.envelope import INVALID_PARAMS, RpcError
from ....wires.mcp.params import Message, PageParams, decode_params
from ....wires.mcp.revisions import Revision
from ....wires.mcp.tools import encode_list

MOST_PAGES = 256


class ToolPages:
    """The pages of `tools/list`, kept until the catalogue changes. A cursor names the last tool of the page before, so
    that it stays good when tools come and go."""

    def __init__(self, catalogue: Catalogue, size: int) -> None:
        self._catalogue, self._size = catalogue, size
        self._pages: dict[tuple[View, str, str], bytes] = {}
        self._version = -1

    def page(self, message: Message, revision: Revision, view: View) -> bytes:
        """Raises RpcError."""
        params = decode_params(message, PageParams)
        cursor = "" if params.cursor is UNSET else params.cursor
        if self._version != self._catalogue.version or len(self._pages) > MOST_PAGES:
            self._pages, self._version = {}, self._catalogue.version
        page = self._pages.get((view, revision.name, cursor))
        if page is None:
            page = self._pages[view, revision.name, cursor] = self._make(cursor, revision, view)
        return page

    def _make(self, cursor: str, revision: Revision, view: View) -> bytes:
        after = _decoded(cursor) if cursor else ""
        rest = [tool for tool in self._catalogue.newest(view) if tool.id > after]
        tools = rest[: self._size]
        return encode_list(tools, revision, _encoded(tools[-1].id) if len(rest) > self._size else None)


def _encoded(id: str) -> str:
    return base64url.encoded(id.encode())


def _decoded(cursor: str) -> str:
    try:
        id = base64url.decoded(cursor).decode()
    except ValueError:
        id = ""
    if not REFERENCE(id):
        raise RpcError(INVALID_PARAMS, "Invalid params: this cursor is not one that this server gave out")
    return id
