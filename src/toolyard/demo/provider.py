"""The demo's OpenID provider without its HTTP: what is asked of people, and what a code or a token is good for.

It is small and yet as strict as one for real use: a code serves once, within a minute, for the address it was made for
and with the verifier whose digest came before it; a refresh token serves once; whoever brings either a second time ends
all that came of it. Nothing is kept beyond the process.
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

from .people import PEOPLE, Person
from .signing import ALG, Signer

SCOPES = ("openid", "email", "offline_access", "mail.read")
CODE_S = 60.0
ASKED_S = 600.0
TOKEN_S = 300
MOST_KEPT = 1000
"""Of each kind; the oldest go first."""
_digest = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch
_verifier = re.compile(r"[A-Za-z0-9._~-]{43,128}").fullmatch


class Application(Struct, frozen=True):
    """The one that may ask: the demo's server."""

    id: str
    secret: str
    redirect_uri: str


class NotAsked(Exception):
    """A request that is answered with a page, and sends nobody anywhere: who made it cannot be believed."""


class SentBack(Exception):
    """A request that is answered at the application's address, with an error."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class Refusal(Exception):
    """OAuth's word for why there is no token, and a sentence."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class LoginQuestion(Struct, frozen=True):
    """What a person is asked."""

    redirect_uri: str
    scopes: tuple[str, ...]
    state: str
    nonce: str
    challenge: str
    until: float


class Grant(Struct):
    """What a person has allowed, and everything that came of it."""

    person: Person
    question: LoginQuestion
    until: float
    """When its code ends."""
    is_used: bool = False
    is_over: bool = False


class GrantedAccess(Struct, frozen=True):
    """What an access token stands for."""

    grant: Grant
    until: float


class DemoProvider:
    """`issuer` is its address."""

    def __init__(self, issuer: str, application: Application, now: Callable[[], float] = time.time) -> None:
        self.issuer, self.application, self._now = issuer, application, now
        self.signer = Signer()
        self._questions: dict[str, LoginQuestion] = {}
        self._codes: dict[str, Grant] = {}
        self._access: dict[str, GrantedAccess] = {}
        self._refresh: dict[str, tuple[Grant, bool]] = {}
        """With whether it was used."""

    def metadata(self) -> dict[str, Any]:
        """What discovery finds."""
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

    def ask(self, said: Mapping[str, str]) -> tuple[str, LoginQuestion]:
        """A question and its id. Raises NotAsked or SentBack."""
        if said.get("client_id") != self.application.id:
            raise NotAsked("This application is not known here.")
        if said.get("redirect_uri") != self.application.redirect_uri:
            raise NotAsked("The address to come back to is not the one that the application is known by.")
        state, scopes = said.get("state", ""), tuple(said.get("scope", "").split())
        if said.get("response_type") != "code":
            raise self._back("unsupported_response_type", state)
        if said.get("code_challenge_method") != "S256" or not _digest(said.get("code_challenge", "")):
            raise self._back("invalid_request", state)
        if not set(scopes) <= set(SCOPES):
            raise self._back("invalid_scope", state)
        id, until = secrets.token_urlsafe(32), self._now() + ASKED_S
        question = LoginQuestion(
            said["redirect_uri"], scopes, state, said.get("nonce", ""), said["code_challenge"], until
        )
        _keep(self._questions, id, question)
        return id, question

    def answer(self, id: str, person: str, *, allowed: bool) -> str:
        """Where the person goes then. Raises NotAsked."""
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

    def _address(self, said: dict[str, str], state: str) -> str:
        more = {"state": state} if state else {}
        return f"{self.application.redirect_uri}?{urlencode({**said, **more, 'iss': self.issuer})}"

    # -- the application asks ----------------------------------------------------------------------

    def admit(self, id: str, secret: str) -> None:
        """Raises Refusal."""
        is_known = hmac.compare_digest(id.encode(), self.application.id.encode())
        if not hmac.compare_digest(secret.encode(), self.application.secret.encode()) or not is_known:
            raise Refusal("invalid_client", "these are not the application's credentials")

    def token(self, said: Mapping[str, str]) -> dict[str, Any]:
        """What the application gets for a code or a refresh token. Raises Refusal."""
        match said.get("grant_type"):
            case "authorization_code":
                return self._exchange(said)
            case "refresh_token":
                return self._renew(said.get("refresh_token", ""))
            case _:
                raise Refusal("unsupported_grant_type", "only authorization_code and refresh_token are taken")

    def revoke(self, token: str) -> None:
        """An access token alone, or a refresh token with all that came of it. One that is not known is no matter."""
        self._access.pop(token, None)
        if token in self._refresh:
            self._refresh[token][0].is_over = True

    def userinfo(self, token: str) -> dict[str, Any]:
        """Raises Refusal."""
        return _about(self._granted(token, "openid"))

    def mail(self, token: str) -> dict[str, Any]:
        """Raises Refusal."""
        return {"unread": self._granted(token, "mail.read").person.unread}

    def _granted(self, token: str, scope: str) -> Grant:
        """What a token comes from, if it is good for that."""
        access = self._access.get(token)
        if access is None or access.grant.is_over or access.until < self._now():
            raise Refusal("invalid_token", "the token is not known, or has ended")
        if scope not in access.grant.question.scopes:
            raise Refusal("insufficient_scope", f"the token is not for {scope}")
        return access.grant

    def _exchange(self, said: Mapping[str, str]) -> dict[str, Any]:
        grant = self._codes.get(said.get("code", ""))
        if grant is None:
            raise Refusal("invalid_grant", "the code is not known")
        if grant.is_used:
            grant.is_over = True
            raise Refusal("invalid_grant", "the code was used before; what came of it is over")
        grant.is_used = True
        if grant.until < self._now():
            raise Refusal("invalid_grant", "the code has run out")
        if said.get("redirect_uri") != grant.question.redirect_uri:
            raise Refusal("invalid_grant", "the code was made for another address")
        if not _fits(said.get("code_verifier", ""), grant.question.challenge):
            raise Refusal("invalid_grant", "the verifier does not fit the code")
        given = self._given(grant)
        return {**given, "id_token": self._id_token(grant)} if "openid" in grant.question.scopes else given

    def _renew(self, token: str) -> dict[str, Any]:
        grant, was_used = self._refresh.get(token, (None, False))
        if grant is None or grant.is_over:
            raise Refusal("invalid_grant", "the refresh token is not known, or over")
        if was_used:
            grant.is_over = True
            raise Refusal("invalid_grant", "the refresh token was used before; what came of it is over")
        self._refresh[token] = (grant, True)
        return self._given(grant)

    def _given(self, grant: Grant) -> dict[str, Any]:
        access, refresh, scopes = secrets.token_urlsafe(32), secrets.token_urlsafe(32), grant.question.scopes
        _keep(self._access, access, GrantedAccess(grant, self._now() + TOKEN_S))
        given = {"access_token": access, "token_type": "Bearer", "expires_in": TOKEN_S, "scope": " ".join(scopes)}
        if "offline_access" in scopes:
            _keep(self._refresh, refresh, (grant, False))
            given["refresh_token"] = refresh
        return given

    def _id_token(self, grant: Grant) -> str:
        now, nonce = int(self._now()), grant.question.nonce
        claims = {"iss": self.issuer, "aud": self.application.id, "iat": now, "exp": now + TOKEN_S}
        claims |= {"nonce": nonce} if nonce else {}
        return self.signer.signed(claims | _about(grant))


def _about(grant: Grant) -> dict[str, Any]:
    """The claims of a person, as far as they were asked for."""
    email = {"email": grant.person.email} if "email" in grant.question.scopes else {}
    return {"sub": grant.person.id, "name": grant.person.name, **email}


def _fits(verifier: str, challenge: str) -> bool:
    if not _verifier(verifier):
        return False
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(digest, challenge.encode())


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    kept[name] = value
    if len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
