"""OAuth's redirects (RFC 6749, with PKCE, RFC 7636): a browser is sent to a provider, or to an issuer to sign in, and
comes back.

What must be known again when the browser comes back is kept in the ledger, sealed, under the `state` that it comes back
with, and can be taken out once, by the browser that was sent. A code for another browser's `state`, somebody else's
answer, and an answer that was used before lead nowhere.
"""

import secrets
from collections.abc import Mapping
from hmac import compare_digest

import msgspec
from msgspec import Struct

from ...model.json_value import decode_as
from ...store.contract import Store
from ...store.values import Note
from ..sealing.ring import BrokenSeal, KeyRing
from .challenges import KEEP_S, name_of
from .provider import Departure, OAuthProvider


class ConnectFailed(Exception):
    """No account was connected, or nobody signed in; the text is for the person. `challenge` can be tried again, if
    there is one."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge


class SentRedirect(Struct, frozen=True):
    """What is known of a browser that was sent to a provider, until it comes back."""

    challenge: str
    provider: str
    browser: str
    """The digest of the cookie by which the browser is known again."""
    departure: Departure


class Redirects:
    """The redirects of one kind, to connect an account or to sign in: what began as one does not end as the other, for
    they are sealed for different purposes."""

    def __init__(self, kind: str, store: Store, ring: KeyRing) -> None:
        self._kind, self._store, self._ring = kind, store, ring

    async def begin(
        self, to: OAuthProvider, challenge: str, browser: str, back: str, scopes: tuple[str, ...], prompt: str = ""
    ) -> str:
        """Begins a redirect: the address to send this browser to, which is to come back to `back`. Raises NoAnswer."""
        state = secrets.token_urlsafe(32)
        departure = Departure(state, secrets.token_urlsafe(48), secrets.token_urlsafe(24), back, scopes, prompt)
        # First, because it may fail: then nothing is kept.
        address = await to.address(departure)
        sent = SentRedirect(challenge, to.provider.id, name_of(browser), departure)
        # Bound to its state: whoever can write to the ledger cannot put it under another.
        sealed = self._ring.seal(self._kind, msgspec.json.encode(sent), name_of(state).encode())
        await self._store.put_note(Note(self._kind, "", "", name_of(state), sealed), KEEP_S)
        return address

    async def end(self, said: Mapping[str, str], browser: str | None, provider: str | None = None) -> SentRedirect:
        """Ends a redirect: what was known when a browser was sent with this `state`, if it is this browser, and, where
        one is given, to this provider. Raises ConnectFailed."""
        gone = ConnectFailed(
            "This was done already, took too long, or did not begin here. Open the link from the tool again."
        )
        name = name_of(said.get("state", ""))
        sealed = await self._store.note(self._kind, "", "", name)
        if sealed is None:
            raise gone
        try:
            sent = decode_as(self._ring.unseal(self._kind, sealed, name.encode()), SentRedirect)
        except BrokenSeal:
            raise gone from None
        # Else an attacker could have their own answer ended in a victim's browser, and connect their account there.
        if browser is None or not compare_digest(sent.browser, name_of(browser)):
            raise ConnectFailed("This began in another browser. Open the link from the tool in this one.")
        # Whoever drops the note has taken it: an answer that comes twice, on whichever node, counts once.
        if provider not in (None, sent.provider) or not await self._store.drop_note(self._kind, "", "", name):
            raise gone
        return sent


async def code_of(provider: OAuthProvider, said: Mapping[str, str], denied: str) -> str:
    """The code that a person was sent back with. `denied` is what a person is told who did not allow it. Raises
    ConnectFailed, and NoAnswer."""
    await _check_issuer(provider, said)
    if "error" in said:
        raise ConnectFailed(
            denied if said["error"] == "access_denied" else _refusal(provider.provider.id, said["error"])
        )
    if not said.get("code"):
        raise ConnectFailed(f"{provider.provider.id} sent you back without an answer.")
    return said["code"]


async def _check_issuer(provider: OAuthProvider, said: Mapping[str, str]) -> None:
    """Raises ConnectFailed where the answer is another provider's (RFC 9207): one could otherwise pass on another's
    code."""
    says_so = (await provider.endpoints()).says_issuer
    if ("iss" in said or says_so) and said.get("iss") != provider.provider.issuer:
        raise ConnectFailed(f"This answer is not from {provider.provider.id}.")


def _refusal(provider: str, error: str) -> str:
    """A provider's own word for why not, cut down to letters: anybody can write the address that a browser brings."""
    shown = "".join(letter for letter in error[:60] if letter.isalnum() or letter in "_-.")
    return f"{provider} refused: {shown}."
