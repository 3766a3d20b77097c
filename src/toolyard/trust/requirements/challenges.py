"""Challenges: the links with which a call that lacks an authorization is answered, and what became of each.

A challenge is its own record: the address has all of it, sealed, so that a call that is refused writes nothing and any
node can tell what a link is about. Whoever it was made for has to show that it is them: by signing in at an issuer that
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
from ..approvals.links import normalized
from ..sealing.ring import BrokenSeal, KeyRing

PURPOSE = "challenge"
STATUS, TRIES = "challenge", "challenge-tries"
"""Kinds of notes in the ledger."""
KEEP_S = 600.0
"""How long a challenge can be completed."""
MOST_TRIES = 5
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""The letters of codes: none that is easily taken for another."""
LONGEST = 8192

Status = Literal["pending", "completed", "failed"]


class Challenged(Struct, frozen=True, array_like=True):
    """What a challenge says once it is opened: who is to connect which account, for which tool."""

    tenant: str
    subject: str
    user: str
    provider: str
    scopes: tuple[str, ...]
    tool: str
    code: str
    """The code that the page asks for. Empty where it has people sign in instead."""
    until: float
    issuers: tuple[str, ...] = ()
    """The issuers at which they can. Where there is none, the page asks for the code."""

    @property
    def caller(self) -> Caller:
        """The caller that the challenge was made for, in whose name the account is kept and the log written."""
        return Caller(self.tenant, self.subject, self.user if self.user != self.subject else None)


class Challenges:
    """Makes challenges, opens them, and knows what became of each."""

    def __init__(self, store: Store, ring: KeyRing, now: Callable[[], float]) -> None:
        self._store, self._ring, self._now = store, ring, now

    def make(
        self, caller: Caller, provider: str, scopes: tuple[str, ...], tool: str, issuers: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        """A new challenge: what its address ends with, and its code, which is empty where there are issuers at which
        the user signs in."""
        # Whoever can sign in needs no code, and a code would let somebody else in.
        code, until = "" if issuers else new_code(), self._now() + KEEP_S
        asked = Challenged(caller.tenant, caller.subject, caller.user, provider, scopes, tool, code, until, issuers)
        sealed = self._ring.seal(PURPOSE, msgspec.json.encode(asked), b"")
        return base64url.encoded(sealed), code

    def open(self, text: str) -> Challenged | None:
        """The challenge that an address ends with. None for one that is not ours, or too old."""
        try:
            if len(text) > LONGEST:
                return None
            sealed = base64url.decoded(text)
            asked = decode_as(self._ring.unseal(PURPOSE, sealed, b""), Challenged)
        except (ValueError, BrokenSeal):
            return None
        return asked if self._now() <= asked.until else None

    async def status(self, text: str) -> Status:
        """What became of a challenge. One that nobody knows has failed."""
        # The note first: a challenge whose time is over may have been completed in time.
        known = await self._store.note(STATUS, "", "", name_of(text))
        if known is not None:
            return "completed" if known == b"completed" else "failed"
        return "pending" if self.open(text) is not None else "failed"

    async def complete(self, text: str) -> None:
        """The account is connected. That is known for as long as somebody may ask, and wakes the calls that wait."""
        await self._store.put_note(Note(STATUS, "", "", name_of(text), b"completed"), 2 * KEEP_S)
        self._store.tell(Topic.DECIDED, name_of(text))

    async def fail(self, text: str) -> None:
        """The challenge cannot be completed any more. One that is completed stays so: a note is added, not put."""
        await self._store.add_note(Note(STATUS, "", "", name_of(text), b"failed"), 2 * KEEP_S)
        self._store.tell(Topic.DECIDED, name_of(text))

    async def is_code(self, text: str, asked: Challenged, given: str) -> bool:
        """Whether the code is right. After `MOST_TRIES` that were not, the challenge has failed. Each try takes one of
        the slots there are before anything is compared, and no two take the same: trying many at once does not help.
        Where a challenge has no code, none is right."""
        if not asked.code:
            return False
        # Tries are counted by what is in the challenge, so that no other spelling of its text has tries of its own.
        inside = sha256(msgspec.json.encode(asked)).hexdigest()
        for slot in map(str, range(MOST_TRIES)):
            if await self._store.add_note(Note(TRIES, "", inside, slot, b"-"), KEEP_S):
                break
        else:
            await self.fail(text)
            return False
        if not compare_digest(normalized(given).encode(), normalized(asked.code).encode()):
            return False
        await self._store.drop_note(TRIES, "", inside, slot)  # a right code takes none of the tries
        return True


def new_code() -> str:
    """A new code: eight letters of 32 are forty bits, which five tries do not guess."""
    letters = "".join(secrets.choice(LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def name_of(text: str) -> str:
    """The name under which the ledger has notes of a challenge, a state or a browser: it does not lead back to them."""
    return sha256(text.encode()).hexdigest()
