"""Who is at the console: codes that let a browser in once, and the browsers that came in with one.

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
SESSION_S = 8 * 3600.0
MOST_TRIES = 10
"""Wrong codes from one address in `CODE_S`, on this node, that are written down. A good code lets its owner in
whatever others at that address have tried: it has 60 random bits and ten minutes, so nobody comes upon it by trying."""
MOST_COUNTED = 10_000
PURPOSE = "console"


class Kept:
    """Secrets of one kind, which are there until their time is over or they are taken."""

    def __init__(self, store: NoteStore, ring: KeyRing, kind: str, keep_s: float) -> None:
        self._store, self._ring, self._kind, self.keep_s = store, ring, kind, keep_s

    async def put(self, secret: str) -> None:
        await self._store.put_note(Note(self._kind, "", "", self._digest(secret), b"{}"), self.keep_s)

    async def has(self, secret: str) -> bool:
        return await self._store.note(self._kind, "", "", self._digest(secret)) is not None

    async def take(self, secret: str) -> bool:
        """Whether it was there. Of several who take it, one is told so."""
        return await self._store.drop_note(self._kind, "", "", self._digest(secret))

    def _digest(self, secret: str) -> str:
        return self._ring.sign(PURPOSE, f"{self._kind}\n{secret}".encode()).hex()


class Codes:
    """What `toolyard console` prints."""

    def __init__(self, store: NoteStore, ring: KeyRing) -> None:
        self._kept = Kept(store, ring, CODE, CODE_S)

    async def new(self) -> str:
        text = base64.b32encode(secrets.token_bytes(10)).decode()
        await self._kept.put(text[:12])
        return f"{text[:4]}-{text[4:8]}-{text[8:12]}"

    async def take(self, given: str) -> bool:
        """Whether it is one, which it then is no longer. It may be written as people do."""
        return await self._kept.take(given.upper().replace("-", "").replace(" ", ""))


class LoginSessions:
    """Browsers that came in."""

    def __init__(self, store: NoteStore, ring: KeyRing) -> None:
        self._kept = Kept(store, ring, SESSION, SESSION_S)

    async def begin(self) -> str:
        """What the browser is known by from now on."""
        id = secrets.token_urlsafe(32)
        await self._kept.put(id)
        return id

    async def has(self, id: str) -> bool:
        return await self._kept.has(id)

    async def end(self, id: str) -> None:
        await self._kept.take(id)


class Tries:
    """Wrong codes, by the address they came from."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._made: dict[str, tuple[int, float]] = {}
        """How many, and since when."""

    def add(self, address: str) -> bool:
        """One more. Whether there were few before."""
        house = network_of(address)
        count, since = self._made.get(house, (0, self._now()))
        if not since <= self._now() < since + CODE_S:
            count, since = 0, self._now()
        if count >= MOST_TRIES:
            return False
        self._made[house] = count + 1, since
        if len(self._made) > MOST_COUNTED:
            del self._made[next(iter(self._made))]
        return True

    def forget(self, address: str) -> None:
        """Whoever is there has shown a good one."""
        self._made.pop(network_of(address), None)
