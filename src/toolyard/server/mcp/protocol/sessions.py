"""Sessions of the older era. An id is signed, so that any node knows it for its caller's; what a session has agreed on
is kept in the ledger, so that it outlives its node.

A session is its caller's: any of its credentials may make requests in it, each for its own tools. What the session is
to all of them (that it goes on, what is told in it) is changed only by credentials that are for all that those are for
which opened it."""

import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ....model.caller import Caller, Reach
from ....model.json_value import decode, decoder
from ....store.contract import Store
from ....store.hints import Topic
from ....store.values import Note
from ....text import base64url
from ....trust.limits.quotas import Quotas
from ....trust.sealing.ring import KeyRing
from ....wires.mcp.envelope import INVALID_PARAMS, INVALID_REQUEST, RpcError
from ....wires.mcp.params import Level

PURPOSE, KIND = "mcp session", "mcp session"
KEEP_S = 7 * 86400.0
MOST, MOST_BYTES = 10_000, 16 * 2**20
"""How many are known by heart."""
MOST_CAPABILITIES = 16 * 2**10
ROOM = 512
NONE = Raw(b"{}")
_TAG = 12
_encode = msgspec.json.Encoder().encode


class SessionState(Struct, rename="camel", omit_defaults=True):
    """What a client and this server have agreed on for a session, and what the client set since."""

    version: str
    capabilities: Raw = NONE
    """As JSON: read, a few kilobytes can be more than a megabyte."""
    log_level: Level = "info"
    subscriptions: list[str] = []
    reach: Reach = Reach()
    """Of the credentials that opened it."""

    def stated(self) -> dict[str, Any]:
        """What the client said that it can."""
        made: dict[str, Any] = decode(self.capabilities)
        return made

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return ROOM + len(self.capabilities) + sum(map(len, self.subscriptions))


_decode = decoder(SessionState)


def kept(capabilities: dict[str, Any]) -> Raw:
    """As a session keeps them. Raises RpcError for more than it keeps."""
    encoded = _encode(capabilities)
    if len(encoded) > MOST_CAPABILITIES:
        raise RpcError(INVALID_PARAMS, f"Invalid params: capabilities have at most {MOST_CAPABILITIES} bytes")
    return Raw(encoded)


class McpSessions:
    """The sessions of the older era that are open. The ledger has them; those that were used last are known by heart
    where no other node could have changed them."""

    def __init__(self, store: Store, ring: KeyRing, new_id: Callable[[], str], quotas: Quotas) -> None:
        self._store, self._ring, self._new_id, self._quotas = store, ring, new_id, quotas
        self.most_followed = quotas.most("subscriptions")
        self._known: OrderedDict[tuple[str, str, str], tuple[SessionState, int]] = OrderedDict()
        """Where nobody else writes, each with its size: those that were used last. Others are read again."""
        self._size = 0

    async def open(self, caller: Caller, state: SessionState) -> str:
        """Its id. Raises LimitReached."""
        await self._quotas.open("mcp_sessions", caller)
        id = self._new_id()
        signed = f"{id}.{_shown(self._ring.sign(PURPOSE, _named(id, caller)))}"
        await self.save(signed, caller, state)
        return signed

    def known(self, id: str, caller: Caller) -> SessionState | None:
        """One that is known by heart; None where the ledger has to be asked."""
        known = self._known.get((id, caller.tenant, caller.subject))
        return None if known is None or self._store.shared else known[0]

    async def find(self, id: str, caller: Caller) -> SessionState:
        """Raises RpcError for one that has ended, never was, or is another caller's."""
        known = self.known(id, caller)
        if known is not None:
            return known
        name, _, signature = id.partition(".")
        known_by = [_shown(each) for each in self._ring.signatures(PURPOSE, _named(name, caller))]
        if not any(hmac.compare_digest(signature.encode(), each.encode()) for each in known_by):
            raise _no_session()
        data = await self._store.note(KIND, caller.tenant, caller.subject, name)
        if data is None:
            self._forget(id, caller)
            raise _no_session()
        return self._remember(id, caller, _decode(data))

    async def save(self, id: str, caller: Caller, state: SessionState) -> None:
        name = id.partition(".")[0]
        await self._store.put_note(Note(KIND, caller.tenant, caller.subject, name, _encode(state)), KEEP_S)
        self._remember(id, caller, state)

    async def change(self, id: str, caller: Caller, state: SessionState) -> None:
        """Saves a session, and lets the nodes know on which it has a stream."""
        await self.save(id, caller, state)
        self._store.tell(Topic.FOLLOWED, id)

    async def end(self, id: str, caller: Caller) -> None:
        """Raises RpcError for one that is not there, or not this caller's to end."""
        refuse_lesser(await self.find(id, caller), caller)
        self._forget(id, caller)
        await self._store.drop_note(KIND, caller.tenant, caller.subject, id.partition(".")[0])

    def _remember(self, id: str, caller: Caller, state: SessionState) -> SessionState:
        self._forget(id, caller)
        state.capabilities = Raw(bytes(state.capabilities))  # not the whole buffer that it was read from
        self._known[id, caller.tenant, caller.subject] = (state, state.size)
        self._size += state.size
        while len(self._known) > MOST or self._size > MOST_BYTES:
            self._size -= self._known.popitem(last=False)[1][1]
        return state

    def _forget(self, id: str, caller: Caller) -> None:
        self._size -= self._known.pop((id, caller.tenant, caller.subject), (None, 0))[1]


def refuse_lesser(state: SessionState, caller: Caller) -> None:
    """Raises RpcError, as for a session that is not there, for credentials that may use it and not change it."""
    if not caller.view.reach.covers(state.reach):
        raise _no_session()


def _named(id: str, caller: Caller) -> bytes:
    return _encode([id, caller.tenant, caller.subject])


def _shown(signature: bytes) -> str:
    return base64url.encoded(signature[:_TAG])


def _no_session() -> RpcError:
    return RpcError(INVALID_REQUEST, "Session not found; send initialize to begin another", status=404)


LONGEST = 128 * 2**10
"""All of them together: a session's are written anew with each change."""


def refuse_many(followed: Sequence[str], most: int) -> None:
    """Raises RpcError for more than a client may follow."""
    if len(followed) > most:
        raise RpcError(INVALID_PARAMS, f"Invalid params: a client may follow at most {most} resources and tasks")
    if sum(map(len, followed)) > LONGEST:
        raise RpcError(
            INVALID_PARAMS, f"Invalid params: the names of what a client follows have at most {LONGEST} characters"
        )
