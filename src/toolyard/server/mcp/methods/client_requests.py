"""Requests to a client of the older era that are not about a call: its answer may reach any node."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ....model.caller import Caller
from ....model.json_value import decode
from ....store.contract import Store
from ....store.values import Note
from ....wires.mcp.envelope import INTERNAL_ERROR, Incoming, RpcError, encode_request
from ..protocol.peer import Outlet, Peer

KIND, PREFIX = "mcp answer", "asked-"
KEEP_S, LOOK_S = 3600.0, 0.2
Names = tuple[str, str, str | None]


class Asking:
    """Sends requests to clients and waits for their answers. An answer that reaches another node is noted in the
    ledger, where the node that asked looks for it."""

    def __init__(self, store: Store, new_id: Callable[[], str]) -> None:
        self._store, self._new_id = store, new_id
        self._waiting: dict[tuple[str, Names], asyncio.Future[Any]] = {}

    async def ask(self, peer: Peer, outlet: Outlet, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The client's result. Raises RpcError for its error."""
        id = PREFIX + self._new_id()
        key = (id, peer.caller.names)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = answer
        outlet.send(encode_request(id, method, params))
        try:
            while not answer.done():
                await asyncio.wait((answer,), timeout=LOOK_S if self._store.shared else None)
                if not answer.done() and (found := await self._found(id, peer.caller)) is not None:
                    answer.set_result(found)
        finally:
            del self._waiting[key]
        return _result(answer.result())

    async def take(self, message: Incoming, caller: Caller) -> None:
        """An answer: for somebody here, or to be found by whoever asked."""
        id = str(message.id)
        if not id.startswith(PREFIX):
            return
        said = {"result": message.result} if message.error is msgspec.UNSET else {"error": message.error}
        data = msgspec.json.encode(said)
        waiting = self._waiting.get((id, caller.names))
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(data)
        elif self._store.shared:
            await self._store.put_note(Note(KIND, caller.tenant, caller.subject, id, data), KEEP_S)

    async def _found(self, id: str, caller: Caller) -> bytes | None:
        return await self._store.note(KIND, caller.tenant, caller.subject, id)


def _result(data: bytes) -> dict[str, Any]:
    said: dict[str, Any] = decode(data)
    if "error" in said:
        error = said["error"] or {}
        raise RpcError(int(error.get("code", INTERNAL_ERROR)), str(error.get("message", "The client refused")))
    result: dict[str, Any] = said["result"]
    return result
