"""API keys of the ledger and of the settings, held in memory so that a request need not ask the ledger for its key.

Keys are looked up by their digests, which are all that the ledger has of them. The ledger is read again when a hint
says that a key came or was revoked, and in any case every moment: a key that was revoked anywhere is refused everywhere
soon after, also where hints are lost. When a key was last used is remembered here and written behind.
"""

import asyncio
import logging
import secrets
import string
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Protocol

from ...model.api_key import ApiKey
from ...store.contract import ApiKeyStore
from ...store.hints import Topic
from ...store.values import StoreDown
from ..access.identity import Identity

_log = logging.getLogger("toolyard.keys")
PREFIX, LENGTH = "ty_", 40
LOOK_AGAIN_S = 1.5
"""How long a revoked key may still be taken where its hint was lost."""
NOTED_EVERY_S = 60.0
"""How often, at most, the use of a key is written."""
_BASE62 = string.digits + string.ascii_letters


def make_api_key() -> str:
    """A new API key that nobody can guess: 40 letters and digits by chance are 238 bits."""
    return PREFIX + "".join(secrets.choice(_BASE62) for _ in range(LENGTH))


def digest_of(key: bytes) -> bytes:
    """What a key is stored and looked up by. How long a look-up takes says nothing of how much of a key was guessed. A
    plain hash will do where a password would need a slow one: keys are long, and made by chance."""
    return sha256(key).digest()


class KnownApiKeys(Protocol):
    """The API keys that there are, as authentication asks for them."""

    @property
    def has_any(self) -> bool:
        """Whether there is, or ever was, a key. Then nobody is let in without credentials."""
        ...

    def find(self, digest: bytes) -> Identity | None:
        """Whose key it is. None: it is not known, or not any more."""
        ...


class ApiKeys:
    """The API keys of a server: those of the ledger, kept up to date, and `given`, those of the settings, which may do
    everything, never expire and are in no ledger."""

    def __init__(self, store: ApiKeyStore, given: Mapping[bytes, Identity], now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._given = given
        self._known = dict(given)
        self._reading = asyncio.Lock()
        self._used: dict[bytes, float] = {}
        self._noted: dict[bytes, float] = {}
        """What the ledger knows of `_used`. Only keys of the ledger are in here."""
        self._unreadable: set[str] = set()
        self.has_any = True
        """Until the ledger was read nobody knows, and so nobody is let in."""
        self._told: list[Callable[[], None]] = []

    def find(self, digest: bytes) -> Identity | None:
        """Whose key this is, and notes that it was used. None: it is not known, revoked, or expired."""
        found = self._known.get(digest)
        if found is None:
            return None
        now = self._now()
        if found.expires is not None and found.expires <= now:
            return None
        self._used[digest] = now
        return found

    def is_known(self, digest: bytes) -> bool:
        """Whether a key is still there. To ask is not to use it."""
        return digest in self._known

    def tell_when_read(self, tell: Callable[[], None]) -> None:
        """Has `tell` called each time the ledger was read: a key may have been revoked."""
        self._told.append(tell)

    @property
    def has_kept(self) -> bool:
        """Whether the ledger has a key, also a revoked one."""
        return bool(self._noted)

    def adopt(self, given: Mapping[bytes, Identity]) -> None:
        """Has these be the keys of the settings from now on. Who was let in by one that is gone is out."""
        ledgers = {digest: found for digest, found in self._known.items() if digest not in self._given}
        self._given, self._known = given, {**ledgers, **given}
        self.has_any = bool(self.has_kept or given)
        self._tell_read()

    async def sync(self) -> None:
        """Reads the ledger. Whoever else reads waits: an older answer that comes in later must not bring a revoked key
        back."""
        async with self._reading:
            keys = await self._store.listed()
            self._known = {key.digest: identity_of(key) for key in keys if key.revoked is None}
            self._known |= self._given
            # Revoked keys count: whoever has revoked the last one has not thereby opened the server to everybody.
            self._noted = {key.digest: key.last_used or 0.0 for key in keys}
            self.has_any = bool(keys or self._given)
            self._tell_unreadable({key.name for key in keys if not key.is_readable})
            self._tell_read()

    def _tell_read(self) -> None:
        for tell in self._told:
            tell()

    def _tell_unreadable(self, names: set[str]) -> None:
        """Logs the keys that cannot be read, each of them once."""
        for name in sorted(names - self._unreadable):
            _log.error("the API key %s cannot be read in the ledger, and lets nobody in; revoke it, make another", name)
        self._unreadable = names

    async def follow(self) -> None:
        """Reads the ledger again whenever something changes, until cancelled."""
        with self._store.hints.waiting(Topic.KEYS) as bell:
            while True:
                await bell.wait(LOOK_AGAIN_S)
                try:
                    await self.sync()
                    await self._note(NOTED_EVERY_S)
                except StoreDown:
                    continue  # what was read before is still the best that is known

    async def close(self) -> None:
        """Writes when keys were last used, as far as the ledger does not know yet."""
        try:
            await self._note(0.0)
        except StoreDown:
            return  # it was only good to know

    async def _note(self, every_s: float) -> None:
        """Writes the use of those keys of which the ledger has not heard for so long."""
        uses = {digest: used for digest, used in self._used.items() if self._is_news(digest, used, every_s)}
        if uses:
            await self._store.note_use(uses)
            self._noted |= uses

    def _is_news(self, digest: bytes, used: float, every_s: float) -> bool:
        noted = self._noted.get(digest)
        return noted is not None and used > noted and used >= noted + every_s


def identity_of(key: ApiKey) -> Identity:
    """The identity of whoever has a key of the ledger."""
    return Identity(
        key.tenant,
        key.subject,
        how="key",
        scopes=frozenset(key.scopes),
        key=key.name,
        allow=key.allow,
        expires=key.expires,
        digest=key.digest,
    )
