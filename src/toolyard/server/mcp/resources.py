"""Resources: the author's, through the SDK, and those that tools gave out, which are kept for whoever got them."""

from collections.abc import Callable

import msgspec

from ...catalogue import Catalogue
from ...engine.held import Node
from ...model.call import Outcome
from ...model.caller import Caller
from ...model.tool import Tool
from ...store.contract import Note
from ...wires.mcp.envelope import INVALID_PARAMS, RESOURCE_NOT_FOUND, Incoming, RpcError
from ...wires.mcp.params import SERVER_INFO, OfResource, decode_params
from ...wires.mcp.revisions import Revision
from ...wires.mcp.tools import INFO, LIST_TTL_MS, blocks_of
from .peer import Outlet, Peer

KIND = "mcp resource"
_NOT_FOUND = (INVALID_PARAMS, RESOURCE_NOT_FOUND)
_encode = msgspec.json.Encoder().encode


class GivenResources:
    """Those that tools gave out."""

    def __init__(self, node: Node, catalogue: Catalogue, keep_s: float) -> None:
        self._node, self._catalogue, self._keep_s = node, catalogue, keep_s

    def are_there(self) -> bool:
        """Whether any tool may give one."""
        return any(tool.returns_content for tool in self._catalogue.all())

    def keep(self, tool: Tool, outcome: Outcome, caller: Caller) -> None:
        """What a result embeds can be read again. It is not waited for."""
        if not tool.returns_content or outcome.value is None:
            return
        for block in blocks_of(msgspec.json.decode(outcome.value)):
            if isinstance(block, dict) and block.get("type") == "resource":
                resource = block["resource"]
                note = Note(KIND, caller.tenant, caller.subject, resource["uri"], _encode(resource))
                self._node.beside(self._node.store.put_note(note, self._keep_s))

    async def read(self, message: Incoming, peer: Peer, outlet: Outlet, base_url: Callable[[], str]) -> bytes:
        uri = decode_params(message, OfResource).uri
        found = await self._node.store.note(KIND, peer.caller.tenant, peer.caller.subject, uri)
        if found is None:
            code = INVALID_PARAMS if peer.revision.is_modern else RESOURCE_NOT_FOUND
            raise RpcError(code, "Resource not found", {"uri": uri}, status=200)
        made: dict[str, object] = {"contents": [msgspec.Raw(found)]}
        return _encode({**_cached(peer.revision), **made})

    async def list(self, message: Incoming, peer: Peer, outlet: Outlet, base_url: Callable[[], str]) -> bytes:
        """They can be read and not listed: a link is in the result that gave them."""
        name = "resourceTemplates" if message.method == "resources/templates/list" else "resources"
        return _encode({**_cached(peer.revision), name: []})


def is_not_found(error: RpcError) -> bool:
    return error.code in _NOT_FOUND


def _cached(revision: Revision) -> dict[str, object]:
    if not revision.is_modern:
        return {}
    meta = {SERVER_INFO: INFO}
    return {"resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": "private", "_meta": meta}
