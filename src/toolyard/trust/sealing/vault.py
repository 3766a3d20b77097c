"""Secrets and users' tokens in the ledger, each sealed and bound to its path there: to whose it is, and what it is
called. Whoever can write to the ledger, but has no key, can neither read one nor move it to where another's belongs.

Beside the sealed value stands what may be known of it in the clear: which tools a secret is for, whose account a token
is of. Nobody decides by that: what matters is sealed as well.
"""

import logging
from typing import Any

import msgspec
from msgspec import Struct

from ...model.json_value import decoder
from ...model.sealed import Resealed, Sealed
from ...store.contract import SealedStore
from .ring import BrokenSeal, KeyRing

PURPOSE = "vault"
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = decoder(dict[str, Any])
_log = logging.getLogger("toolyard.secrets")
_bound = msgspec.msgpack.Encoder().encode


class VaultPath(Struct, frozen=True):
    """Where something is kept in the vault: what kind of thing it is, whose it is, and its name."""

    kind: str
    tenant: str
    owner: str
    name: str


class Opened(Struct, frozen=True):
    """A thing of the vault that was opened: its value, what is known of it, and which version it is."""

    value: bytes
    about: dict[str, Any]
    version: int
    changed: float


class Vault:
    """Seals things into the store, and opens them one at a time for whoever needs them."""

    def __init__(self, store: SealedStore, ring: KeyRing) -> None:
        self._store, self._ring = store, ring

    async def put(self, path: VaultPath, value: bytes, about: dict[str, Any], instead_of: int | None = None) -> bool:
        """Keeps a value in place of what is there; False where `instead_of` is given and another version than that is
        there now. `about` is no secret."""
        data = self._ring.seal(PURPOSE, value, _binding(path))
        return await self._store.put(Sealed(*_members(path), data, _encode(about)), instead_of)

    async def get(self, path: VaultPath) -> Opened | None:
        """What is kept at a path. Raises BrokenSeal where it was sealed by another ring, or for another path."""
        found = await self._store.get(*_members(path))
        if found is None:
            return None
        value = self._ring.unseal(PURPOSE, found.data, _binding(path))
        return Opened(value, _about(found), found.version, found.changed)

    async def about(
        self, kind: str, tenant: str | None = None, owner: str | None = None
    ) -> list[tuple[VaultPath, Opened]]:
        """What is known of the things of a kind, without opening any: their values are empty."""
        shown = []
        for each in await self._store.listed(kind, tenant, owner):
            path = VaultPath(each.kind, each.tenant, each.owner, each.name)
            shown.append((path, Opened(b"", _about(each), each.version, each.changed)))
        return shown

    async def closed(self, kind: str) -> set[VaultPath]:
        """The things of a kind that no key of the ring opens."""
        kept = await self._store.listed(kind)
        return {
            VaultPath(each.kind, each.tenant, each.owner, each.name) for each in kept if not opens(self._ring, each)
        }

    @property
    def keys(self) -> int:
        """How many keys the ring has."""
        return len(self._ring)

    async def reseal(self) -> Resealed:
        """Seals everything, of every kind, with the ring's first key."""
        anew = before = lost = 0
        for each in await self._store.listed():
            path = VaultPath(each.kind, each.tenant, each.owner, each.name)
            if self._ring.is_newest(PURPOSE, each.data, _binding(path)):
                before += 1
                continue
            try:
                value = self._ring.unseal(PURPOSE, each.data, _binding(path))
            except BrokenSeal:
                lost += 1
                continue
            # Nothing is put, and nothing counted, where somebody has put another value meanwhile.
            anew += await self.put(path, value, _about(each), each.version)
        return Resealed(anew, before, lost)

    async def drop(self, path: VaultPath) -> bool:
        """Removes what is kept at a path; whether it was there."""
        return await self._store.drop(*_members(path))


def _about(thing: Sealed) -> dict[str, Any]:
    """What is known of a thing; nothing where that cannot be read. It is no part of what is sealed, and the thing may
    be good all the same."""
    try:
        return _decode(thing.about)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        _log.error(
            "what is known of the %s %s of tenant %s cannot be read: %s", thing.kind, thing.name, thing.tenant, error
        )
        return {}


def opens(ring: KeyRing, thing: Sealed) -> bool:
    """Whether one of the ring's keys has sealed a thing. A ring that nobody may use has sealed nothing."""
    if ring.refusal is not None:
        return False
    try:
        ring.unseal(PURPOSE, thing.data, _binding(VaultPath(thing.kind, thing.tenant, thing.owner, thing.name)))
    except BrokenSeal:
        return False
    return True


def _members(path: VaultPath) -> tuple[str, str, str, str]:
    return path.kind, path.tenant, path.owner, path.name


def _binding(path: VaultPath) -> bytes:
    """What a seal is bound to. msgpack writes lengths, so that no two paths are bound to the same bytes."""
    return _bound(_members(path))
