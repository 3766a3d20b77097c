"""Challenges: what a call that lacks an authorization is answered with, and how each of them stands.

A challenge is its own record: the address has all of it, sealed, so that a call that is refused writes nothing and any
node can tell what a link is about. Whom it was made for has to show that it is them: by signing in at an issuer that
knows them, or else by a code that only the caller was shown, which is in there too. A link that was passed on or found
connects nobody's account to somebody else.
"""

import secrets
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Literal

import msgspec
from msgspec import Struct

from ...model.caller import Caller
from ...model.json_value import decode_as
from ...store.contract import Store
from ...store.hints import Topic
from ...store.values import Note
from ...text import base64url
from ..approvals.links import plain
from ..sealing.ring import BrokenSeal, KeyRing

PURPOSE = "challenge"
STATUS, TRIES = "challenge", "challenge-tries"
KEEP_S = 600.0
MOST_TRIES = 5
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""None that is easily taken for another."""
LONGEST = 8192

Standing = Literal["pending", "completed", "failed"]


class Challenged(Struct, frozen=True, array_like=True):
    """Who is to connect what, for which tool."""

    tenant: str
    subject: str
    user: str
    provider: str
    scopes: tuple[str, ...]
    tool: str
    code: str
    """Empty where its page has people sign in."""
    until: float
    issuers: tuple[str, ...] = ()
    """Where they can. None: the page asks for the code."""

    @property
    def caller(self) -> Caller:
        """Whom it was made for, for whoever writes down what became of it."""
        return Caller(self.tenant, self.subject, self.user if self.user != self.subject else None)


class Challenges:
    """Makes them, opens them, and knows how they stand."""

    def __init__(self, store: Store, ring: KeyRing, now: Callable[[], float]) -> None:
        self._store, self._ring, self._now = store, ring, now

    def make(
        self, caller: Caller, provider: str, scopes: tuple[str, ...], tool: str, issuers: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        """What its address ends with, and its code: none where there are issuers, at which the user signs in."""
        code, until = "" if issuers else new_code(), self._now() + KEEP_S
        asked = Challenged(caller.tenant, caller.subject, user_of(caller), provider, scopes, tool, code, until, issuers)
        sealed = self._ring.seal(PURPOSE, msgspec.json.encode(asked), b"")
        return base64url.encoded(sealed), code

    def open(self, text: str) -> Challenged | None:
        """None for one that is not ours, or too old."""
        try:
            if len(text) > LONGEST:
                return None
            sealed = base64url.decoded(text)
            asked = decode_as(self._ring.unseal(PURPOSE, sealed, b""), Challenged)
        except (ValueError, BrokenSeal):
            return None
        return asked if self._now() <= asked.until else None

    async def status(self, text: str) -> Standing:
        """Of one that nobody knows: failed."""
        known = await self._store.note(STATUS, "", "", name_of(text))
        if known is not None:
            return "completed" if known == b"completed" else "failed"
        return "pending" if self.open(text) is not None else "failed"

    async def complete(self, text: str) -> None:
        """It is known for as long as somebody may ask."""
        await self._store.put_note(Note(STATUS, "", "", name_of(text), b"completed"), 2 * KEEP_S)
        self._store.tell(Topic.DECIDED, name_of(text))

    async def fail(self, text: str) -> None:
        """What is completed stays so."""
        await self._store.add_note(Note(STATUS, "", "", name_of(text), b"failed"), 2 * KEEP_S)
        self._store.tell(Topic.DECIDED, name_of(text))

    async def is_code(self, text: str, asked: Challenged, given: str) -> bool:
        """Whether it is the code. After so many that were not, the challenge has failed. Each try takes one of the
        places there are before anything is compared, and no two take the same: trying many at once does not help. They
        are counted by what is in the challenge, and not by its text. Where there is no code, nothing is."""
        if not asked.code:
            return False
        inside = sha256(msgspec.json.encode(asked)).hexdigest()
        for place in map(str, range(MOST_TRIES)):
            if await self._store.add_note(Note(TRIES, "", inside, place, b"-"), KEEP_S):
                break
        else:
            await self.fail(text)
            return False
        if not compare_digest(plain(given).encode(), plain(asked.code).encode()):
            return False
        await self._store.drop_note(TRIES, "", inside, place)
        return True


def user_of(caller: Caller) -> str:
    """Whose account it is: the user's that the caller speaks for, or else its own."""
    return caller.user_id or caller.subject


def new_code() -> str:
    """Forty bits."""
    letters = "".join(secrets.choice(LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def name_of(text: str) -> str:
    """What is kept of a challenge does not lead back to it."""
    return sha256(text.encode()).hexdigest()
