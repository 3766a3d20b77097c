"""How a person shows that a challenge is theirs: they sign in at an issuer that knows them, with OpenID Connect.

Nobody who was sent a link, or found it, can end it for the right person: whoever else signs in, does not want to, or
comes back with something wrong is told so, and the challenge stays as it was.
"""

import logging
from collections.abc import Mapping

from msgspec import Struct

from ...model.caller import Caller
from ..access.identity import Identity
from ..credentials.jwks_cache import NoAnswer
from .accounts import Did
from .challenges import Challenged, Challenges
from .connect_flow import TOO_LATE
from .provider import OAuthProvider, ProviderRefused
from .redirects import ConnectFailed, Redirects, SentRedirect, code_of

KIND = "sign-in"
_log = logging.getLogger("toolyard.connections")


class SignedIn(Struct, frozen=True):
    """Somebody signed in for a challenge. `is_right`: it is whom the challenge was made for."""

    challenge: str
    asked: Challenged
    issuer: str
    is_right: bool


class SignInFlow:
    """Sends people to issuers, and finds out who comes back. `issuers` are those of the settings, by their names."""

    def __init__(
        self, issuers: Mapping[str, OAuthProvider], challenges: Challenges, redirects: Redirects, did: Did
    ) -> None:
        self._issuers, self._challenges, self._redirects, self._did = issuers, challenges, redirects, did

    def issuers_of(self, caller: Caller) -> tuple[str, ...]:
        """Where the user that a caller speaks for, or else the caller itself, can sign in: at the issuer of the
        caller's own token, or at any where a program speaks for a user. Where there is none, they are asked for a
        code."""
        if caller.issuer is not None and caller.issuer in self._issuers:
            return (caller.issuer,)
        return tuple(self._issuers) if caller.user_id else ()

    def offered(self, asked: Challenged) -> tuple[str, ...]:
        """The issuers of a challenge that the settings still have."""
        return tuple(each for each in asked.issuers if each in self._issuers)

    async def leave(self, challenge: str, issuer: str, browser: str, back: str, *, anew: bool) -> str:
        """The address to send this browser to; it is to come back to `back`. `anew`: the issuer is to ask who they are
        also if somebody is signed in there already. Raises ConnectFailed."""
        to = self._issuers[issuer]
        try:
            prompt = "login" if anew else ""
            return await self._redirects.begin(to, challenge, browser, back, to.provider.scopes, prompt)
        except NoAnswer as problem:
            _log.warning("%s cannot be reached: %s", issuer, problem)
            raise ConnectFailed(f"{issuer} cannot be reached at the moment. Try again later.", challenge) from None

    async def arrive(self, said: Mapping[str, str], browser: str | None) -> SignedIn:
        """A browser comes back from an issuer. `said` is what the issuer sends with it. Raises ConnectFailed."""
        sent = await self._redirects.end(said, browser)
        asked = self._challenges.open(sent.challenge)
        if asked is None or await self._challenges.status(sent.challenge) != "pending":
            raise ConnectFailed(TOO_LATE)
        if sent.provider not in self.offered(asked):
            raise ConnectFailed(f"Nobody signs in at {sent.provider} for this. Open the link from the tool again.")
        try:
            who = await self._who(sent, said)
        except ConnectFailed as failure:
            self._did(f"failed {asked.provider}: {failure}", asked.caller)
            # With the challenge, unlike in `connect_flow`: whoever was not let through may try again.
            raise ConnectFailed(str(failure), sent.challenge) from None
        # The tenant, too: another tenant may have a user of the same name.
        is_right = (who.tenant, who.subject) == (asked.tenant, asked.user)
        if not is_right:
            stranger = f"{who.subject} of {who.tenant}"
            self._did(f"failed {asked.provider}: {stranger} signed in at {sent.provider}", asked.caller)
        return SignedIn(sent.challenge, asked, sent.provider, is_right)

    async def _who(self, sent: SentRedirect, said: Mapping[str, str]) -> Identity:
        """Who signed in, as the issuer's ID token says. Raises ConnectFailed."""
        issuer = self._issuers[sent.provider]
        try:
            code = await code_of(issuer, said, f"You did not sign in at {sent.provider}. Nothing was connected.")
            return await issuer.identity(await issuer.exchange(code, sent.departure), sent.departure)
        except (NoAnswer, ProviderRefused) as problem:
            _log.warning("%s did not say who signed in: %s", sent.provider, problem)
            raise ConnectFailed(
                f"{sent.provider} did not say who you are. The reason is in this server's log."
            ) from None
