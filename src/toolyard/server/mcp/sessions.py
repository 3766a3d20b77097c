"""Sessions of the older era. An id is signed, so that any node knows it for its caller's; what a session has agreed on
is kept in the ledger, so that it outlives its node."""

import hmac
from collections import OrderedDict
from collections.abc import Callable

import msgspec
from msgspec import Struct

from ...model import base64url
from ...model.caller import Caller
from ...store.contract import Note, Store
from ...trust.keys import KeyRing
from ...wires.mcp.envelope import INVALID_REQUEST, RpcError
from ...wires.mcp.params import Level

PURPOSE, KIND = "mcp session", "mcp session"
KEEP_S = 7 * 86400.0
MOST = 10_000
_TAG = 12
_encode = msgspec.json.Encoder().encode


class SessionState(Struct, rename="camel", omit_defaults=True):
    """What a client and this server have agreed on."""

    version: str
    capabilities: dict[str, object]
    log_level: Level = "info"
    subscriptions: list[str] = []


_decode = msgspec.json.Decoder(SessionState).decode


class McpSessions:
    """Those that are open."""

    def __init__(self, store: Store, ring: KeyRing, new_id: Callable[[], str]) -> None:
        self._store, self._ring, self._new_id = store, ring, new_id
        self._known: OrderedDict[tuple[str, str, str], SessionState] = OrderedDict()
        """Where nobody else writes."""

    async def open(self, caller: Caller, state: SessionState) -> str:
        """Its id."""
        id = self._new_id()
        signed = f"{id}.{_shown(self._ring.sign(PURPOSE, _named(id, caller)))}"
        await self.save(signed, caller, state)
        return signed

    async def find(self, id: str, caller: Caller) -> SessionState:
        """Raises RpcError for one that has ended, never was, or is another caller's."""
        known = self._known.get((id, caller.tenant, caller.subject))
        if known is not None and not self._store.shared:
            return known
        name, _, signature = id.partition(".")
        known_by = [_shown(each) for each in self._ring.signatures(PURPOSE, _named(name, caller))]
        if not any(hmac.compare_digest(signature.encode(), each.encode()) for each in known_by):
            raise _no_session()
        data = await self._store.note(KIND, caller.tenant, caller.subject, name)
        if data is None:
            self._known.pop((id, caller.tenant, caller.subject), None)
            raise _no_session()
        return self._remember(id, caller, _decode(data))

    async def save(self, id: str, caller: Caller, state: SessionState) -> None:
        name = id.partition(".")[0]
        await self._store.put_note(Note(KIND, caller.tenant, caller.subject, name, _encode(state)), KEEP_S)
        self._remember(id, caller, state)

    async def end(self, id: str, caller: Caller) -> None:
        """Raises RpcError for one that is not there."""
        await self.find(id, caller)
        self._known.pop((id, caller.tenant, caller.subject), None)
        await self._store.drop_note(KIND, caller.tenant, caller.subject, id.partition(".")[0])

    def _remember(self, id: str, caller: Caller, state: SessionState) -> SessionState:
        self._known[id, caller.tenant, caller.subject] = state
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return state


def _named(id: str, caller: Caller) -> bytes:
    return _encode([id, caller.tenant, caller.subject])


def _shown(signature: bytes) -> str:
    return base64url.encoded(signature[:_TAG])


def _no_session() -> RpcError:
    return RpcError(INVALID_REQUEST, "Session not found; send initialize to begin another", status=404)
