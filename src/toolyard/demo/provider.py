"""The demo's OpenID provider without its HTTP: questions to people, codes, and tokens.

It is small, and yet as strict as one for real use: a code is good once, within a minute, for the redirect URI it was
made for and with the PKCE verifier whose digest was sent before (RFC 7636); a refresh token is good once; whoever uses
either a second time ends the whole grant, as it may have been stolen. Nothing is kept beyond the process.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from .people import PEOPLE, DemoPerson
from .signing import ALG, Signer

SCOPES = ("openid", "email", "offline_access", "mail.read")
CODE_S = 60.0
ASKED_S = 600.0
TOKEN_S = 300
MOST_KEPT = 1000
"""How many questions, codes and tokens of each kind are kept; the oldest go first."""
_digest = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch
# RFC 7636, section 4.1; the digest above is base64url of its SHA-256.
_verifier = re.compile(r"[A-Za-z0-9._~-]{43,128}").fullmatch


class Application(Struct, frozen=True):
    """The application that may ask people here: the demo's server. OAuth calls it the client."""

    id: str
    secret: str
    redirect_uri: str


class NotAsked(Exception):
    """An authorization request that is answered with a page here, and no redirect: its sender cannot be trusted, and a
    redirect would go where the sender wants."""


class SentBack(Exception):
    """An authorization request that is answered with a redirect to the application, with an error."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class Refusal(Exception):
    """A refusal at the token endpoint or of a token: OAuth's error code, and a sentence."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class LoginQuestion(Struct, frozen=True):
    """An authorization request that a person has to answer: may the application have these scopes?"""

    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    nonce: str
    challenge: str
    until: float


class Grant(Struct):
    """What a person has allowed. Every token knows the grant it came from, so that all end together (`is_over`)."""

    person: DemoPerson
    question: LoginQuestion
    until: float
    """When its code expires."""
    is_used: bool = False
    is_over: bool = False


class GrantedAccess(Struct, frozen=True):
    """What an access token stands for: a grant, until it expires."""

    grant: Grant
    until: float


class DemoProvider:
    """An OpenID provider for one application. `issuer` is its own address."""

    def __init__(self, issuer: str, application: Application, now: Callable[[], float] = time.time) -> None:
        self.issuer, self.application, self._now = issuer, application, now
        self.signer = Signer()
        self._questions: dict[str, LoginQuestion] = {}
        self._codes: dict[str, Grant] = {}
        self._access: dict[str, GrantedAccess] = {}
        # Each with whether it was used: a used one stays known, so that a second use is noticed.
        self._refresh: dict[str, tuple[Grant, bool]] = {}

    def metadata(self) -> dict[str, Any]:
        """The provider's metadata, for OpenID Connect discovery."""
        methods = ["client_secret_basic", "client_secret_post"]
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "jwks_uri": f"{self.issuer}/jwks",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALG],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    # -- a person is asked -------------------------------------------------------------------------

    def ask(self, fields: Mapping[str, str]) -> tuple[str, LoginQuestion]:
        """Takes an authorization request. Returns the question to the person, and its id. Raises NotAsked or
        SentBack."""
        # Application and redirect URI are checked first: until they are right, no error may be sent by redirect.
        if fields.get("client_id") != self.application.id:
            raise NotAsked("This application is not known here.")
        if fields.get("redirect_uri") != self.application.redirect_uri:
            raise NotAsked("The address to come back to is not the one that the application is known by.")
        state, scopes = fields.get("state", ""), tuple(fields.get("scope", "").split())
        if fields.get("response_type") != "code":
            raise self._back("unsupported_response_type", state)
        if fields.get("code_challenge_method") != "S256" or not _digest(fields.get("code_challenge", "")):
            raise self._back("invalid_request", state)
        if not set(scopes) <= set(SCOPES):
            raise self._back("invalid_scope", state)
        id, until = secrets.token_urlsafe(32), self._now() + ASKED_S
        question = LoginQuestion(
            fields["redirect_uri"], scopes, state, fields.get("nonce", ""), fields["code_challenge"], until
        )
        _keep(self._questions, id, question)
        return id, question

    def answer(self, id: str, person: str, *, allowed: bool) -> str:
        """Takes a person's answer. Returns the address that their browser is sent to. Raises NotAsked."""
        if allowed and person not in PEOPLE:
            raise NotAsked("Nobody of that name has an account here.")
        question = self._questions.pop(id, None)
        if question is None or question.until < self._now():
            raise NotAsked("This was answered already, or has run out.")
        if not allowed:
            return self._back("access_denied", question.state).address
        code = secrets.token_urlsafe(32)
        _keep(self._codes, code, Grant(PEOPLE[person], question, self._now() + CODE_S))
        return self._address({"code": code}, question.state)

    def _back(self, error: str, state: str) -> SentBack:
        return SentBack(self._address({"error": error}, state))

    def _address(self, parameters: dict[str, str], state: str) -> str:
        more = {"state": state} if state else {}
        # `iss` says who answers (RFC 9207), so that answers of two providers cannot be mixed up.
        return f"{self.application.redirect_uri}?{urlencode({**parameters, **more, 'iss': self.issuer})}"

    # -- the application asks ----------------------------------------------------------------------

    def admit(self, id: str, secret: str) -> None:
        """Raises Refusal for credentials that are not the application's."""
        # Both are compared in any case, and in constant time: how long it takes tells nothing.
        is_known = hmac.compare_digest(id.encode(), self.application.id.encode())
        if not hmac.compare_digest(secret.encode(), self.application.secret.encode()) or not is_known:
            raise Refusal("invalid_client", "these are not the application's credentials")

    def token(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The tokens that the application gets for a code or a refresh token. Raises Refusal."""
        match fields.get("grant_type"):
            case "authorization_code":
                return self._exchange(fields)
            case "refresh_token":
                return self._renew(fields.get("refresh_token", ""))
            case _:
                raise Refusal("unsupported_grant_type", "only authorization_code and refresh_token are taken")

    def revoke(self, token: str) -> None:
        """Revokes an access token alone, or a refresh token with its whole grant. An unknown token is no error
        (RFC 7009, section 2.2)."""
        self._access.pop(token, None)
        if token in self._refresh:
            self._refresh[token][0].is_over = True

    def userinfo(self, token: str) -> dict[str, Any]:
        """The claims about the person whose token this is. Raises Refusal."""
        return _about(self._granted(token, "openid"))

    def mail(self, token: str) -> dict[str, Any]:
        """The unread mail of the person whose token this is. Raises Refusal."""
        return {"unread": self._granted(token, "mail.read").person.unread}

    def _granted(self, token: str, scope: str) -> Grant:
        """The grant that an access token comes from, if the token is good for this scope. Raises Refusal."""
        access = self._access.get(token)
        if access is None or access.grant.is_over or access.until < self._now():
            raise Refusal("invalid_token", "the token is not known, or has ended")
        if scope not in access.grant.question.scopes:
            raise Refusal("insufficient_scope", f"the token is not for {scope}")
        return access.grant

    def _exchange(self, fields: Mapping[str, str]) -> dict[str, Any]:
        grant = self._codes.get(fields.get("code", ""))
        if grant is None:
            raise Refusal("invalid_grant", "the code is not known")
        if grant.is_used:
            grant.is_over = True
            raise Refusal("invalid_grant", "the code was used before; what came of it is over")
        grant.is_used = True  # before the checks below: a code that was tried in vain is not good for a second try
        if grant.until < self._now():
            raise Refusal("invalid_grant", "the code has run out")
        if fields.get("redirect_uri") != grant.question.redirect_uri:
            raise Refusal("invalid_grant", "the code was made for another address")
        if not _fits(fields.get("code_verifier", ""), grant.question.challenge):
            raise Refusal("invalid_grant", "the verifier does not fit the code")
        tokens = self._new_tokens(grant)
        return {**tokens, "id_token": self._id_token(grant)} if "openid" in grant.question.scopes else tokens

    def _renew(self, token: str) -> dict[str, Any]:
        grant, was_used = self._refresh.get(token, (None, False))
        if grant is None or grant.is_over:
            raise Refusal("invalid_grant", "the refresh token is not known, or over")
        if was_used:
            grant.is_over = True
            raise Refusal("invalid_grant", "the refresh token was used before; what came of it is over")
        self._refresh[token] = (grant, True)
        return self._new_tokens(grant)

    def _new_tokens(self, grant: Grant) -> dict[str, Any]:
        access, refresh, scopes = secrets.token_urlsafe(32), secrets.token_urlsafe(32), grant.question.scopes
        _keep(self._access, access, GrantedAccess(grant, self._now() + TOKEN_S))
        tokens = {"access_token": access, "token_type": "Bearer", "expires_in": TOKEN_S, "scope": " ".join(scopes)}
        if "offline_access" in scopes:
            _keep(self._refresh, refresh, (grant, False))
            tokens["refresh_token"] = refresh
        return tokens

    def _id_token(self, grant: Grant) -> str:
        now, nonce = int(self._now()), grant.question.nonce
        claims = {"iss": self.issuer, "aud": self.application.id, "iat": now, "exp": now + TOKEN_S}
        claims |= {"nonce": nonce} if nonce else {}
        return self.signer.signed(claims | _about(grant))


def _about(grant: Grant) -> dict[str, Any]:
    """The claims about a person, as far as the scopes ask for them."""
    email = {"email": grant.person.email} if "email" in grant.question.scopes else {}
    return {"sub": grant.person.id, "name": grant.person.name, **email}


def _fits(verifier: str, challenge: str) -> bool:
    """Whether a PKCE verifier is the one whose digest was sent with the authorization request."""
    if not _verifier(verifier):
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode())


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    """Keeps a value, and drops the oldest where there are too many: dictionaries are in the order of insertion."""
    kept[name] = value
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
