"""Codes that let a browser log in to the console once, and the sessions of the browsers that did.

Both are notes in the ledger, so that every node knows them. A note's name is a digest that only the ring of keys can
make: a copy of the database lets nobody in, and neither does writing to it.
"""

import base64
import secrets
from collections.abc import Callable

from ...store.contract import NoteStore
from ...store.values import Note
from ...trust.limits.limits import network_of
from ...trust.sealing.ring import KeyRing

CODE, SESSION = "console code", "console session"
CODE_S = 600.0
"""How long a code is good."""
SESSION_S = 8 * 3600.0
"""How long a browser stays logged in."""
MOST_TRIES = 10
"""How many wrong codes from one network in `CODE_S` this node writes to the audit log. A good code lets its owner in
whatever others there have tried: it has 60 random bits and ten minutes, so nobody comes upon it by trying."""
MOST_COUNTED = 10_000
"""How many networks are remembered."""
PURPOSE = "console"
"""What the ring of keys signs digests for."""


class SecretNotes:
    """Secrets of one kind, of which the ledger has digests alone. Each is there until its time is over or somebody
    takes it."""

    def __init__(self, store: NoteStore, ring: KeyRing, kind: str, keep_s: float) -> None:
        self._store, self._ring, self._kind, self.keep_s = store, ring, kind, keep_s

    async def put(self, secret: str) -> None:
        await self._store.put_note(Note(self._kind, "", "", self._digest(secret), b"{}"), self.keep_s)

    async def has(self, secret: str) -> bool:
        return await self._store.note(self._kind, "", "", self._digest(secret)) is not None

    async def take(self, secret: str) -> bool:
        """Removes the secret, and says whether it was there. Of several who take it at once, one is told yes."""
        return await self._store.drop_note(self._kind, "", "", self._digest(secret))

    def _digest(self, secret: str) -> str:
        return self._ring.sign(PURPOSE, f"{self._kind}\n{secret}".encode()).hex()


class Codes:
    """The codes that `toolyard console` prints. Each is good for one login."""

    def __init__(self, store: NoteStore, ring: KeyRing) -> None:
        self._notes = SecretNotes(store, ring, CODE, CODE_S)

    async def new(self) -> str:
        """A code in three groups of letters and digits, which a person can type."""
        text = base64.b32encode(secrets.token_bytes(10)).decode()
        await self._notes.put(text[:12])
        return f"{text[:4]}-{text[4:8]}-{text[8:12]}"

    async def take(self, given: str) -> bool:
        """Whether this is a good code, which it then is no longer. Case, hyphens and spaces do not matter."""
        return await self._notes.take(given.upper().replace("-", "").replace(" ", ""))


class LoginSessions:
    """The sessions of browsers that logged in to the console."""

    def __init__(self, store: NoteStore, ring: KeyRing) -> None:
        self._notes = SecretNotes(store, ring, SESSION, SESSION_S)

    async def begin(self) -> str:
        """The id of a new session, for the browser's cookie."""
        id = secrets.token_urlsafe(32)
        await self._notes.put(id)
        return id

    async def has(self, id: str) -> bool:
        return await self._notes.has(id)

    async def end(self, id: str) -> None:
        await self._notes.take(id)


class WrongCodes:
    """Counts the wrong codes that came from each network, so that an attacker cannot fill the audit log."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._made: dict[str, tuple[int, float]] = {}
        """By network: how many, and since when."""

    def add(self, address: str) -> bool:
        """Counts one more, and says whether there were few before."""
        network = network_of(address)
        count, since = self._made.get(network, (0, self._now()))
        if not since <= self._now() < since + CODE_S:
            count, since = 0, self._now()
        if count >= MOST_TRIES:
            return False
        self._made[network] = count + 1, since
        if len(self._made) > MOST_COUNTED:
            del self._made[next(iter(self._made))]  # the one that was counted first
        return True

    def forget(self, address: str) -> None:
        """Counts from zero again, after a good code from there."""
        self._made.pop(network_of(address), None)
