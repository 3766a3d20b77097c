"""The way of a person from a challenge to a provider and back."""

import logging
from collections.abc import Mapping

from msgspec import Struct

from ..credentials.jwks_cache import NoAnswer
from .accounts import Accounts, Did, granted
from .challenges import Challenged, Challenges
from .provider import OAuthProvider, ProviderRefused
from .redirects import ConnectFailed, Redirects, SentRedirect, code_of

KIND = "authorization"
TOO_LATE = "This took too long, or was done already. Have the tool called again for a new link."
_log = logging.getLogger("toolyard.connections")


class Connected(Struct, frozen=True):
    """How it ended well."""

    asked: Challenged
    account: str


class ConnectFlow:
    """Sends people off, and takes them back."""

    def __init__(
        self,
        providers: Mapping[str, OAuthProvider],
        challenges: Challenges,
        connections: Accounts,
        journeys: Redirects,
        did: Did,
    ) -> None:
        self.providers, self.challenges, self._connections = providers, challenges, connections
        self._journeys, self._did = journeys, did

    async def scopes(self, asked: Challenged) -> tuple[str, ...]:
        """What is asked for: what the tool needs, what is always asked for, and what there was before, so that one tool
        after another adds to it."""
        held = await self._connections.scopes(asked.caller, asked.provider)
        always = self.providers[asked.provider].provider.scopes
        return tuple(dict.fromkeys([*always, *asked.scopes, *held]))

    async def leave(self, challenge: str, asked: Challenged, browser: str, back: str) -> str:
        """The address at the provider to send this browser to; it is to come back to `back`. Raises Failed."""
        provider, scopes = self.providers[asked.provider], await self.scopes(asked)
        try:
            return await self._journeys.begin(provider, challenge, browser, back, scopes)
        except NoAnswer as problem:
            _log.warning("%s cannot be reached: %s", asked.provider, problem)
            raise ConnectFailed(
                f"{asked.provider} cannot be reached at the moment. Try again later.", challenge
            ) from None

    async def arrive(self, provider: str, said: Mapping[str, str], browser: str | None) -> Connected:
        """`said` is what the provider sends with the browser. Raises Failed."""
        sent = await self._journeys.end(said, browser, provider)
        asked = self.challenges.open(sent.challenge)
        try:
            if asked is None or await self.challenges.status(sent.challenge) != "pending":
                raise ConnectFailed(TOO_LATE)
            account = await self._connect(sent, asked, said)
        except ConnectFailed as failure:
            await self.challenges.fail(sent.challenge)
            if asked is not None:
                self._did(f"failed {provider}: {failure}", asked.caller)
            raise
        await self.challenges.complete(sent.challenge)
        self._did(f"connected {provider}", asked.caller)
        return Connected(asked, account)

    async def _connect(self, sent: SentRedirect, asked: Challenged, said: Mapping[str, str]) -> str:
        """The account's name."""
        provider = self.providers[sent.provider]
        denied = f"You did not allow it. Nothing was connected; {sent.provider} has given no access."
        try:
            tokens = await provider.exchange(await code_of(provider, said, denied), sent.departure)
            scopes = granted(provider, tokens, sent.departure.scopes)
            if lacking := sorted(set(asked.scopes) - set(scopes)):
                raise ConnectFailed(f"{asked.tool} needs more than was allowed: {', '.join(lacking)} is missing.")
            account = await provider.account(tokens, sent.departure)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("%s did not give a token: %s", sent.provider, problem)
            raise ConnectFailed(f"{sent.provider} did not give access. The reason is in this server's log.") from None
        await self._connections.keep(asked.caller, sent.provider, tokens, scopes, account)
        return account
