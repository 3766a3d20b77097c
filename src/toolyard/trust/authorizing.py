"""The way of a person from a challenge to a provider and back: OAuth's code flow with PKCE.

What must be known again when the browser comes back is kept in the ledger, sealed, under the `state` that it comes back
with, and can be taken out once, by the browser that was sent. A code for another browser's `state`, another provider's
answer, and an answer that was used before lead nowhere.
"""

import logging
import secrets
from collections.abc import Mapping
from hmac import compare_digest

import msgspec
from msgspec import Struct

from ..store.contract import Note, Store
from .challenges import KEEP_S, Asked, Challenges, name_of
from .connections import Connections, Did, granted
from .keys import BrokenSeal, KeyRing
from .oauth import Departure, OAuthProvider, ProviderRefused
from .published_keys import NoAnswer

KIND = "authorization"
PURPOSE = "authorization"
_log = logging.getLogger("toolyard.connections")


class Failed(Exception):
    """It did not come to a connection; the text is for the person."""


class Sent(Struct, frozen=True):
    """A person who was sent to a provider."""

    challenge: str
    provider: str
    browser: str
    """Its digest."""
    departure: Departure


class Connected(Struct, frozen=True):
    """How it ended well."""

    asked: Asked
    account: str


class Authorizing:
    """Sends people off, and takes them back."""

    def __init__(
        self,
        providers: Mapping[str, OAuthProvider],
        challenges: Challenges,
        connections: Connections,
        store: Store,
        ring: KeyRing,
        did: Did,
    ) -> None:
        self.providers, self.challenges, self._connections = providers, challenges, connections
        self._store, self._ring, self._did = store, ring, did

    async def scopes(self, asked: Asked) -> tuple[str, ...]:
        """What is asked for: what the tool needs, what is always asked for, and what there was before, so that one tool
        after another adds to it."""
        held = await self._connections.scopes(asked.caller, asked.provider)
        always = self.providers[asked.provider].provider.scopes
        return tuple(dict.fromkeys([*always, *asked.scopes, *held]))

    async def leave(self, challenge: str, asked: Asked, browser: str, redirect_uri: str) -> str:
        """The address at the provider to send this browser to. Raises Failed."""
        state = secrets.token_urlsafe(32)
        departure = Departure(
            state, secrets.token_urlsafe(48), secrets.token_urlsafe(24), redirect_uri, await self.scopes(asked)
        )
        try:
            address = await self.providers[asked.provider].address(departure)
        except NoAnswer as problem:
            _log.warning("%s cannot be reached: %s", asked.provider, problem)
            raise Failed(f"{asked.provider} cannot be reached at the moment. Try again later.") from None
        sent = Sent(challenge, asked.provider, name_of(browser), departure)
        sealed = self._ring.seal(PURPOSE, msgspec.json.encode(sent), name_of(state).encode())
        await self._store.put_note(Note(KIND, "", "", name_of(state), sealed), KEEP_S)
        return address

    async def arrive(self, provider: str, said: Mapping[str, str], browser: str | None) -> Connected:
        """`said` is what the provider sends with the browser. Raises Failed."""
        sent = await self._taken(provider, said, browser)
        asked = self.challenges.open(sent.challenge)
        try:
            if asked is None or await self.challenges.status(sent.challenge) != "pending":
                raise Failed("This took too long, or was done already. Have the tool called again for a new link.")
            account = await self._connect(sent, asked, said)
        except Failed as failure:
            await self.challenges.fail(sent.challenge)
            if asked is not None:
                self._did(f"failed {provider}: {failure}", asked.caller)
            raise
        await self.challenges.complete(sent.challenge)
        self._did(f"connected {provider}", asked.caller)
        return Connected(asked, account)

    async def _taken(self, provider: str, said: Mapping[str, str], browser: str | None) -> Sent:
        """Whom we sent with this `state`. Nobody else is."""
        gone = Failed("This was done already, took too long, or did not begin here. Open the link from the tool again.")
        name = name_of(said.get("state", ""))
        sealed = await self._store.note(KIND, "", "", name)
        if sealed is None:
            raise gone
        try:
            sent = msgspec.json.decode(self._ring.unseal(PURPOSE, sealed, name.encode()), type=Sent)
        except BrokenSeal:
            raise gone from None
        if browser is None or not compare_digest(sent.browser, name_of(browser)):
            raise Failed("This began in another browser. Open the link from the tool in this one.")
        if sent.provider != provider or not await self._store.drop_note(KIND, "", "", name):
            raise gone
        return sent

    async def _connect(self, sent: Sent, asked: Asked, said: Mapping[str, str]) -> str:
        """The account's name."""
        provider = self.providers[sent.provider]
        try:
            await self._check_issuer(provider, said)
            if "error" in said:
                raise Failed(_refusal(sent.provider, said["error"]))
            if not said.get("code"):
                raise Failed(f"{sent.provider} sent you back without an answer.")
            tokens = await provider.exchange(said["code"], sent.departure)
            scopes = granted(provider, tokens, sent.departure.scopes)
            if lacking := sorted(set(asked.scopes) - set(scopes)):
                raise Failed(f"{asked.tool} needs more than was allowed: {', '.join(lacking)} is missing.")
            account = await provider.account(tokens, sent.departure)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("%s did not give a token: %s", sent.provider, problem)
            raise Failed(f"{sent.provider} did not give access. The reason is in this server's log.") from None
        await self._connections.keep(asked.caller, sent.provider, tokens, scopes, account)
        return account

    async def _check_issuer(self, provider: OAuthProvider, said: Mapping[str, str]) -> None:
        """RFC 9207: an answer says whose it is, and must be that provider's."""
        says_so = (await provider.endpoints()).says_issuer
        if ("iss" in said or says_so) and said.get("iss") != provider.provider.issuer:
            raise Failed(f"This answer is not from {provider.provider.id}.")


def _refusal(provider: str, error: str) -> str:
    if error == "access_denied":
        return f"You did not allow it. Nothing was connected; {provider} has given no access."
    shown = "".join(letter for letter in error[:60] if letter.isalnum() or letter in "_-.")
    return f"{provider} refused: {shown}."
