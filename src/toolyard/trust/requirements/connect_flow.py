"""How a person connects an account: from the page of a challenge to the provider and back, with OAuth's code flow.

The provider's answer becomes tokens, the tokens must be good for what the tool needs, and then they are kept for the
user that the challenge was made for. Pages are `server/accounts`; signing in before that is `sign_in_flow`.
"""

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
    """An account that was just connected: what was asked for, and what the account is called."""

    asked: Challenged
    account: str


class ConnectFlow:
    """Sends people to providers, and keeps what they bring back."""

    def __init__(
        self,
        providers: Mapping[str, OAuthProvider],
        challenges: Challenges,
        accounts: Accounts,
        redirects: Redirects,
        did: Did,
    ) -> None:
        self.providers, self.challenges, self._accounts = providers, challenges, accounts
        self._redirects, self._did = redirects, did

    async def scopes(self, asked: Challenged) -> tuple[str, ...]:
        """The scopes to ask for: what the tool needs, what is always asked for, and what there was before, so that one
        tool after another adds to the account instead of taking from it."""
        held = await self._accounts.scopes(asked.caller, asked.provider)
        always = self.providers[asked.provider].provider.scopes
        return tuple(dict.fromkeys([*always, *asked.scopes, *held]))

    async def leave(self, challenge: str, asked: Challenged, browser: str, back: str) -> str:
        """The address at the provider to send this browser to; it is to come back to `back`. Raises
        ConnectFailed."""
        provider, scopes = self.providers[asked.provider], await self.scopes(asked)
        try:
            return await self._redirects.begin(provider, challenge, browser, back, scopes)
        except NoAnswer as problem:
            _log.warning("%s cannot be reached: %s", asked.provider, problem)
            raise ConnectFailed(
                f"{asked.provider} cannot be reached at the moment. Try again later.", challenge
            ) from None

    async def arrive(self, provider: str, said: Mapping[str, str], browser: str | None) -> Connected:
        """A browser comes back, and an account is connected. `said` is what the provider sends with the browser. Raises
        ConnectFailed, and the challenge has failed with it: a code is good once."""
        sent = await self._redirects.end(said, browser, provider)
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
        # Only now that the tokens are kept: a call that is woken by this looks for them at once.
        await self.challenges.complete(sent.challenge)
        self._did(f"connected {provider}", asked.caller)
        return Connected(asked, account)

    async def _connect(self, sent: SentRedirect, asked: Challenged, said: Mapping[str, str]) -> str:
        """Redeems the provider's code and keeps the tokens; the account's name."""
        provider = self.providers[sent.provider]
        denied = f"You did not allow it. Nothing was connected; {sent.provider} has given no access."
        try:
            tokens = await provider.exchange(await code_of(provider, said, denied), sent.departure)
            scopes = granted(provider, tokens, sent.departure.scopes)
            # People may untick scopes at the provider: an account that the tool cannot use is not kept.
            if lacking := sorted(set(asked.scopes) - set(scopes)):
                raise ConnectFailed(f"{asked.tool} needs more than was allowed: {', '.join(lacking)} is missing.")
            account = await provider.account(tokens, sent.departure)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("%s did not give a token: %s", sent.provider, problem)
            raise ConnectFailed(f"{sent.provider} did not give access. The reason is in this server's log.") from None
        await self._accounts.keep(asked.caller, sent.provider, tokens, scopes, account)
        return account
