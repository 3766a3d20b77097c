"""Sealed things in the ledger: what is in them is bound to its place there, so that nobody can move it to another's."""

import logging
from typing import Any

import msgspec
from msgspec import Struct

from ...model.sealed import Resealed, Sealed
from ...store.contract import SealedStore as Shelf
from .ring import BrokenSeal, KeyRing

PURPOSE = "vault"
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_log = logging.getLogger("toolyard.secrets")
_bound = msgspec.msgpack.Encoder().encode


class VaultPath(Struct, frozen=True):
    """Where something is kept: what kind of thing it is, whose it is, and its name."""

    kind: str
    tenant: str
    owner: str
    name: str


class Opened(Struct, frozen=True):
    """What was in it, what is known of it, and which version it is."""

    value: bytes
    about: dict[str, Any]
    version: int
    changed: float


class Vault:
    """Opens things for whoever needs them, one at a time."""

    def __init__(self, shelf: Shelf, ring: KeyRing) -> None:
        self._shelf, self._ring = shelf, ring

    async def put(self, place: VaultPath, value: bytes, about: dict[str, Any], instead_of: int | None = None) -> bool:
        """Whether it was put: not where another version than that is there. `about` is no secret."""
        data = self._ring.seal(PURPOSE, value, _place(place))
        return await self._shelf.put(Sealed(*_members(place), data, _encode(about)), instead_of)

    async def get(self, place: VaultPath) -> Opened | None:
        """Raises BrokenSeal where it was sealed by another ring, or for another place."""
        found = await self._shelf.get(*_members(place))
        if found is None:
            return None
        value = self._ring.unseal(PURPOSE, found.data, _place(place))
        return Opened(value, _about(found), found.version, found.changed)

    async def about(
        self, kind: str, tenant: str | None = None, owner: str | None = None
    ) -> list[tuple[VaultPath, Opened]]:
        """What is known of things, without opening any: their values are empty."""
        shown = []
        for each in await self._shelf.listed(kind, tenant, owner):
            place = VaultPath(each.kind, each.tenant, each.owner, each.name)
            shown.append((place, Opened(b"", _about(each), each.version, each.changed)))
        return shown

    async def closed(self, kind: str) -> set[VaultPath]:
        """Those that no key opens."""
        kept = await self._shelf.listed(kind)
        return {
            VaultPath(each.kind, each.tenant, each.owner, each.name) for each in kept if not opens(self._ring, each)
        }

    @property
    def keys(self) -> int:
        """How many the ring has."""
        return len(self._ring)

    async def reseal(self) -> Resealed:
        """Seals everything, of every kind, with the ring's first key."""
        anew = before = lost = 0
        for each in await self._shelf.listed():
            place = VaultPath(each.kind, each.tenant, each.owner, each.name)
            if self._ring.is_newest(PURPOSE, each.data, _place(place)):
                before += 1
                continue
            try:
                value = self._ring.unseal(PURPOSE, each.data, _place(place))
            except BrokenSeal:
                lost += 1
                continue
            anew += await self.put(place, value, _about(each), each.version)  # or else it was changed meanwhile
        return Resealed(anew, before, lost)

    async def drop(self, place: VaultPath) -> bool:
        """Whether it was there."""
        return await self._shelf.drop(*_members(place))


def _about(thing: Sealed) -> dict[str, Any]:
    """Nothing where it cannot be read: it is no part of what is sealed, and the thing may be good all the same."""
    try:
        return _decode(thing.about)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError) as error:
        _log.error(
            "what is known of the %s %s of tenant %s cannot be read: %s", thing.kind, thing.name, thing.tenant, error
        )
        return {}


def opens(ring: KeyRing, thing: Sealed) -> bool:
    """Whether one of the ring's keys has sealed it. A ring that nobody may use has sealed nothing."""
    if ring.refusal is not None:
        return False
    try:
        ring.unseal(PURPOSE, thing.data, _place(VaultPath(thing.kind, thing.tenant, thing.owner, thing.name)))
    except BrokenSeal:
        return False
    return True


def _members(place: VaultPath) -> tuple[str, str, str, str]:
    return place.kind, place.tenant, place.owner, place.name


def _place(place: VaultPath) -> bytes:
    return _bound(_members(place))
