"""What this server says to an OAuth provider: where a person is sent, and what a code, a refresh token or an access
token is good for.

Authlib speaks OAuth over httpx2; this adds what a provider is, what of its answers is believed, and how long it may
take.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from ...lazy import load
from ...model.errors import ToolyardError
from ...text.addresses import is_safe
from ...text.scrubber import Scrubber
from ..access.identity import Identity
from ..credentials.discovery import TIMEOUT_S, authorities, check_metadata, fetch_metadata, member
from ..credentials.jwks_cache import NoAnswer
from ..credentials.jwt import read_token
from ..issuer_settings import TrustedIssuer
from ..provider_settings import Endpoints, Provider

DISCOVER_AGAIN_S = 3600.0
"""How long a provider's metadata is remembered."""
EXCHANGE_S = 2 * TIMEOUT_S
"""For one request to a provider, however slowly it answers."""
DEAD = frozenset({"invalid_grant", "bad_refresh_token"})
"""What a provider says of a refresh token that is good for nothing any more: OAuth's word, and GitHub's."""
MOST_READ = 4096
"""How much of what a provider says is wrong is looked at."""
NAMES = ("email", "preferred_username", "login", "name", "sub")
"""Claims that say what an account is called, the best first."""


class ProviderRefused(Exception):
    """A provider said no. `code` is OAuth's word for why; the text is for whoever runs the server."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code

    @property
    def is_dead(self) -> bool:
        """Whether a refresh token was refused for good, and not only now."""
        return self.code in DEAD


class ProviderTokens(Struct, frozen=True):
    """The tokens that a provider gave. `lifetime_s` is None where it does not say when the access token ends."""

    access: str
    refresh: str | None
    lifetime_s: float | None
    scopes: tuple[str, ...] | None
    """None where the provider does not say: then they are those that were asked for."""
    id_token: str | None = None


class Departure(Struct, frozen=True):
    """What a person is sent to the provider with, and what must be the same when they come back: `state` shows which
    browser was sent, `verifier` redeems the code (PKCE), `nonce` must be in the ID token."""

    state: str
    verifier: str
    nonce: str
    redirect_uri: str
    scopes: tuple[str, ...]
    prompt: str = ""
    """OpenID Connect's `prompt`, where the settings do not say it otherwise."""


class OAuthProvider:
    """One provider, with this server as its client. All requests to it raise NoAnswer where it does not answer, or not
    as it should."""

    def __init__(self, provider: Provider, now: Callable[[], float], trusted: TrustedIssuer | None = None) -> None:
        """`trusted` says how the provider's ID tokens are read, where it is an issuer of the settings."""
        self.provider, self._now = provider, now
        self._trusted = trusted or TrustedIssuer(provider.issuer or "")
        self._verifier: Any = None
        self._known: Endpoints | None = provider.endpoints
        self._known_since = now()

    async def endpoints(self) -> Endpoints:
        """The provider's addresses, discovered once an hour. Raises NoAnswer."""
        if self.provider.issuer is None:
            assert self.provider.endpoints is not None  # noqa: S101
            return self.provider.endpoints
        if self._known is None or not 0 <= self._now() - self._known_since < DISCOVER_AGAIN_S:
            document = await fetch_metadata(self.provider.issuer)
            check_metadata(document, self.provider.issuer, self.provider.setting)
            self._known, self._known_since = _endpoints(document), self._now()
        return self._known

    async def address(self, departure: Departure) -> str:
        """Where to send the person: the authorization request of OAuth, with what is in the departure."""
        endpoints = await self.endpoints()
        prompt = {"prompt": departure.prompt} if departure.prompt else {}
        parameters = {**prompt, **self.provider.parameters}  # what the settings say wins
        scope = {"scope": " ".join(departure.scopes)} if departure.scopes else {}
        # Only those that are discovered speak OpenID Connect; a preset may refuse what it does not know.
        nonce = {"nonce": departure.nonce} if self.provider.issuer is not None else {}
        async with self._client(endpoints, departure.redirect_uri) as client:
            url, _ = client.create_authorization_url(
                endpoints.authorize, departure.state, departure.verifier, **parameters, **scope, **nonce
            )
        return str(url)

    async def exchange(self, code: str, departure: Departure) -> ProviderTokens:
        """The tokens that a code is good for. Raises ProviderRefused."""
        endpoints = await self.endpoints()
        async with self._client(endpoints, departure.redirect_uri) as client:
            asked = client.fetch_token(endpoints.token, code=code, code_verifier=departure.verifier)
            return _tokens(await self._asked(asked, code=code, verifier=departure.verifier))

    async def refresh(self, refresh_token: str) -> ProviderTokens:
        """New tokens for a refresh token, which may be good for nothing after that. Raises ProviderRefused."""
        endpoints = await self.endpoints()
        async with self._client(endpoints) as client:
            asked = client.refresh_token(endpoints.token, refresh_token)
            return _tokens(await self._asked(asked, refresh_token=refresh_token))

    async def revoke(self, token: str, kind: str) -> bool:
        """Whether the provider takes tokens back, and took this one. `kind` is what the token is."""
        endpoints = await self.endpoints()
        if endpoints.revoke is None:
            return False
        async with self._client(endpoints) as client:
            response = await self._asked(client.revoke_token(endpoints.revoke, token, kind), token=token)
        if response.status_code != 200:
            raise NoAnswer(f"{endpoints.revoke} answered with status {response.status_code}")
        return True

    async def account(self, tokens: ProviderTokens, departure: Departure) -> str:
        """What the account is called, as far as can be told. Raises ProviderRefused where the ID token is not for this
        departure: somebody put a code of theirs in its place."""
        if tokens.id_token is not None and self.provider.issuer is not None:
            return _name((await self.identity(tokens, departure)).claims)
        endpoints = await self.endpoints()
        # UserInfo is for tokens with the scope openid alone (OpenID Connect Core, section 5.3).
        if endpoints.account is None or (self.provider.issuer is not None and "openid" not in (tokens.scopes or ())):
            return ""
        try:
            async with self._client(endpoints) as client:
                asked = client.get(endpoints.account, auth=None, headers={"authorization": f"Bearer {tokens.access}"})
                return _name((await self._asked(asked, access_token=tokens.access)).json())
        except (NoAnswer, ValueError):
            return ""

    async def identity(self, tokens: ProviderTokens, departure: Departure) -> Identity:
        """Whom the ID token is about, which must be this provider's, for this client, and for this departure (OpenID
        Connect Core, section 3.1.3.7). Raises ProviderRefused."""
        if tokens.id_token is None:
            raise ProviderRefused("invalid_id_token", "there is none")
        client_id = self.provider.client_id
        if self._verifier is None:
            self._verifier = load("issuer")(self._trusted, client_id, self._now)
        try:
            verified = self._verifier.verify_read(read_token(tokens.id_token.encode()))
            identity: Identity = await verified if isinstance(verified, Awaitable) else verified
        except ToolyardError as error:
            raise ProviderRefused("invalid_id_token", error.developer_message or error.message) from None
        # An ID token of another sign-in, which somebody put in place of this one, has another nonce.
        if identity.claims.get("nonce") != departure.nonce:
            raise ProviderRefused("invalid_id_token", "its nonce is another")
        # A token may have several audiences; `azp` is the client that it was given to.
        if identity.claims.get("azp", client_id) != client_id:
            raise ProviderRefused("invalid_id_token", "it was made for another client (azp)")
        return identity

    def _client(self, endpoints: Endpoints, redirect_uri: str | None = None) -> Any:
        """An OAuth client for one request. It follows no redirects, which could take a secret elsewhere, and goes
        through a proxy of the environment only where TLS goes through it, too."""
        try:
            secret = self.provider.secret()
        except ValueError as error:
            raise NoAnswer(str(error)) from None
        method = "none" if secret is None else "client_secret_basic" if endpoints.takes_basic else "client_secret_post"
        return load("oauth_client")(
            self.provider.client_id,
            secret,
            token_endpoint_auth_method=method,
            revocation_endpoint_auth_method=method,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
            follow_redirects=False,
            trust_env=endpoints.token.startswith("https:"),
            verify=authorities(),
        )

    async def _asked(self, request: Awaitable[Any], **sent: str) -> Any:
        """The answer to a request, in time. Raises NoAnswer or ProviderRefused, with no more than a line of what the
        provider says. What was `sent` in confidence, and the client's own secret, may stand in that line: it is logged,
        and told to whoever runs the server, without them."""
        http, refusal = load("http"), load("oauth_error")
        try:
            async with asyncio.timeout(EXCHANGE_S):
                return await request
        except TimeoutError:
            raise NoAnswer(f"{self.provider.id} did not answer within {EXCHANGE_S:g} s") from None
        except refusal as error:
            code, text = self._scrubbed(str(error.error), sent), self._scrubbed(str(error.description or ""), sent)
            raise ProviderRefused(code[:200], text[:500]) from None
        except (http.HTTPError, http.InvalidURL, ValueError, RecursionError) as error:
            said = self._scrubbed(str(error), sent)
            raise NoAnswer(f"{self.provider.id}: {said[:500] or type(error).__name__}") from None

    def _scrubbed(self, text: str, sent: Mapping[str, str]) -> str:
        secret = self.provider.secret()
        known = {**sent, "client_secret": secret} if secret is not None else sent
        return Scrubber(known.items()).text(text[:MOST_READ])


def _endpoints(document: dict[str, Any]) -> Endpoints:
    """The addresses that a provider's metadata names. Raises NoAnswer where one of them is not safe for secrets."""
    authorize, token = member(document, "authorization_endpoint"), member(document, "token_endpoint")
    others = (document.get(name) for name in ("revocation_endpoint", "userinfo_endpoint"))
    revoke, account = (url if isinstance(url, str) else None for url in others)
    for url in filter(None, (authorize, token, revoke, account)):
        if not is_safe(url):
            raise NoAnswer(f"{url} is not an https address")
    # RFC 8414: where the metadata does not say, it is client_secret_basic.
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        authorize,
        token,
        revoke,
        account,
        says_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
    )


def _tokens(said: Any) -> ProviderTokens:
    """The tokens in a provider's answer. GitHub separates scopes by commas. Raises NoAnswer where there are none."""
    access, refresh, id_token = (said.get(name) for name in ("access_token", "refresh_token", "id_token"))
    if not isinstance(access, str) or not access or str(said.get("token_type", "bearer")).lower() != "bearer":
        raise NoAnswer("its answer has no bearer token")
    scope = said.get("scope")
    return ProviderTokens(
        access,
        refresh if isinstance(refresh, str) and refresh else None,
        _seconds(said.get("expires_in")),
        tuple(scope.replace(",", " ").split()) if isinstance(scope, str) and scope else None,
        id_token if isinstance(id_token, str) else None,
    )


def _seconds(said: Any) -> float | None:
    """A lifetime, which some providers write as text. None for what is none."""
    try:
        seconds = float(said)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < 10**10 else None


def _name(claims: Any) -> str:
    """What an account is called, by its claims; empty where they do not say."""
    names = [claims.get(name) for name in NAMES] if isinstance(claims, dict) else []
    return next((name[:200] for name in names if isinstance(name, str) and name), "")
