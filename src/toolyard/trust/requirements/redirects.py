"""People who are sent elsewhere with OAuth's code flow and PKCE, to a provider or to where they sign in, and come back.

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
    """It did not come to a connection; the text is for the person. `challenge` can be tried again, if there is one."""

    def __init__(self, text: str, challenge: str = "") -> None:
        super().__init__(text)
        self.challenge = challenge


class SentRedirect(Struct, frozen=True):
    """A person who was sent away."""

    challenge: str
    provider: str
    """Whom to."""
    browser: str
    """Its digest."""
    departure: Departure


class Redirects:
    """Of one kind: what began as another does not end as this."""

    def __init__(self, kind: str, store: Store, ring: KeyRing) -> None:
        self._kind, self._store, self._ring = kind, store, ring

    async def begin(
        self, to: OAuthProvider, challenge: str, browser: str, back: str, scopes: tuple[str, ...], prompt: str = ""
    ) -> str:
        """The address to send this browser to; it is to come back to `back`. Raises NoAnswer."""
        state = secrets.token_urlsafe(32)
        departure = Departure(state, secrets.token_urlsafe(48), secrets.token_urlsafe(24), back, scopes, prompt)
        address = await to.address(departure)
        sent = SentRedirect(challenge, to.provider.id, name_of(browser), departure)
        sealed = self._ring.seal(self._kind, msgspec.json.encode(sent), name_of(state).encode())
        await self._store.put_note(Note(self._kind, "", "", name_of(state), sealed), KEEP_S)
        return address

    async def end(self, said: Mapping[str, str], browser: str | None, provider: str | None = None) -> SentRedirect:
        """Whom we sent with this `state`, if need be to this provider. Nobody else is. Raises Failed."""
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
        if browser is None or not compare_digest(sent.browser, name_of(browser)):
            raise ConnectFailed("This began in another browser. Open the link from the tool in this one.")
        if provider not in (None, sent.provider) or not await self._store.drop_note(self._kind, "", "", name):
            raise gone
        return sent


async def code_of(provider: OAuthProvider, said: Mapping[str, str], denied: str) -> str:
    """What a person was sent back with. `denied` is what they are told who did not want it. Raises Failed, and
    NoAnswer."""
    await _check_issuer(provider, said)
    if "error" in said:
        raise ConnectFailed(
            denied if said["error"] == "access_denied" else _refusal(provider.provider.id, said["error"])
        )
    if not said.get("code"):
        raise ConnectFailed(f"{provider.provider.id} sent you back without an answer.")
    return said["code"]


async def _check_issuer(provider: OAuthProvider, said: Mapping[str, str]) -> None:
    """RFC 9207: an answer says whose it is, and must be that provider's."""
    says_so = (await provider.endpoints()).says_issuer
    if ("iss" in said or says_so) and said.get("iss") != provider.provider.issuer:
        raise ConnectFailed(f"This answer is not from {provider.provider.id}.")


def _refusal(provider: str, error: str) -> str:
    shown = "".join(letter for letter in error[:60] if letter.isalnum() or letter in "_-.")
    return f"{provider} refused: {shown}."
