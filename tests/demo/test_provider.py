"""The demo's provider, over HTTP: what it gives to whom, and what it refuses."""

import base64
import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from toolyard.demo.provider import ASKED_S, CODE_S, MOST_KEPT, TOKEN_S, Application, DemoProvider
from toolyard.demo.provider_http import listening, providing
from toolyard.demo.visitor import VisitedPage

CALLBACK = "http://127.0.0.1:9/connections/demo/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
ASKING = {
    "client_id": "app",
    "redirect_uri": CALLBACK,
    "response_type": "code",
    "scope": "openid email offline_access mail.read",
    "state": "s1",
    "nonce": "n1",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
}
SECRET = "hush"


class ManualClock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Peer:
    """An application and a person, at a provider."""

    def __init__(self, issuer: str, clock: ManualClock) -> None:
        self.issuer, self.clock = issuer, clock
        self.http = httpx2.Client(base_url=issuer, trust_env=False, timeout=30)

    def ask(self, **changed: str) -> Any:
        return self.http.get("/authorize", params=ASKING | changed)

    def answer(self, say: str = "allow", person: str = "ada", **changed: str) -> dict[str, str]:
        """What the person is sent back with."""
        asked = self.ask(**changed)
        form = VisitedPage(str(asked.url), asked.text)
        sent = self.http.post(form.action, data={**form.fields, "person": person, "say": say})
        assert sent.status_code == 303, sent.text
        return said(sent)

    def code(self, **changed: str) -> str:
        return self.answer(**changed)["code"]

    def token(self, **form: str) -> Any:
        return self.http.post("/token", data=form, auth=("app", SECRET))

    def exchange(self, code: str, **changed: str) -> Any:
        form = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
        return self.token(code=code, **(form | changed))

    def refresh(self, token: str) -> Any:
        return self.token(grant_type="refresh_token", refresh_token=token)

    def get(self, path: str, token: str) -> Any:
        return self.http.get(path, headers={"authorization": f"Bearer {token}"})


def said(sent: Any) -> dict[str, str]:
    address = urlsplit(sent.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == CALLBACK
    return {name: values[0] for name, values in parse_qs(address.query).items()}


@contextmanager
def started() -> Iterator[Peer]:
    clock = ManualClock()
    application = Application("app", SECRET, CALLBACK)
    with listening() as (listener, issuer), providing(DemoProvider(issuer, application, clock), listener):
        peer = Peer(issuer, clock)
        with peer.http:
            yield peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    with started() as made:
        yield made


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_it_can_be_discovered_and_its_tokens_verified(peer: Peer) -> None:
    found = peer.http.get("/.well-known/openid-configuration").json()
    assert found["issuer"] == peer.issuer
    assert found["code_challenge_methods_supported"] == ["S256"]
    back = peer.answer()
    assert (back["state"], back["iss"]) == ("s1", peer.issuer)
    given = peer.exchange(back["code"]).json()
    keys = KeySet.import_key_set(peer.http.get(found["jwks_uri"]).json())
    claims = jwt.decode(given["id_token"], keys, algorithms=["ES256"]).claims
    now = int(peer.clock.now)
    assert claims == {
        "iss": peer.issuer, "aud": "app", "sub": "ada", "name": "Ada", "email": "ada@demo.example",
        "nonce": "n1", "iat": now, "exp": now + TOKEN_S,
    }  # fmt: skip
    assert "d" not in peer.http.get(found["jwks_uri"]).json()["keys"][0], "the private part"


def test_a_token_is_good_for_what_was_allowed_until_it_ends(peer: Peer) -> None:
    token = peer.exchange(peer.code(person="bob")).json()["access_token"]
    assert peer.get("/userinfo", token).json() == {"sub": "bob", "name": "Bob", "email": "bob@demo.example"}
    assert peer.get("/mail", token).json() == {"unread": ["Your parcel is on its way"]}
    less = peer.exchange(peer.code(scope="openid")).json()
    assert "refresh_token" not in less
    assert "email" not in peer.get("/userinfo", less["access_token"]).json()
    assert refusal(peer.get("/mail", less["access_token"])) == (403, "insufficient_scope")
    peer.clock.now += TOKEN_S + 1
    assert refusal(peer.get("/mail", token)) == (401, "invalid_token")
    assert refusal(peer.http.get("/mail")) == (401, "invalid_token")


def test_who_denies_it_is_sent_back_without_a_code(peer: Peer) -> None:
    assert peer.answer("deny") == {"error": "access_denied", "state": "s1", "iss": peer.issuer}


@pytest.mark.parametrize("verifier", ["w" * 43, "", "v" * 42, CHALLENGE])
def test_a_wrong_verifier_gets_nothing_and_ends_the_code(peer: Peer, verifier: str) -> None:
    code = peer.code()
    assert refusal(peer.exchange(code, code_verifier=verifier)) == (400, "invalid_grant")
    assert refusal(peer.exchange(code)) == (400, "invalid_grant")


def test_a_code_serves_once_and_who_brings_it_again_ends_what_came_of_it(peer: Peer) -> None:
    code = peer.code()
    given = peer.exchange(code).json()
    assert peer.get("/mail", given["access_token"]).status_code == 200
    assert refusal(peer.exchange(code)) == (400, "invalid_grant")
    assert refusal(peer.get("/mail", given["access_token"])) == (401, "invalid_token")
    assert refusal(peer.refresh(given["refresh_token"])) == (400, "invalid_grant")


def test_a_code_runs_out_and_so_does_a_question(peer: Peer) -> None:
    code = peer.code()
    form = VisitedPage(peer.issuer, peer.ask().text)
    peer.clock.now += CODE_S + 1
    assert refusal(peer.exchange(code)) == (400, "invalid_grant")
    peer.clock.now += ASKED_S
    late = peer.http.post("/authorize", data={**form.fields, "person": "ada", "say": "allow"})
    assert (late.status_code, "has run out" in late.text) == (400, True)


def test_a_question_is_answered_once_and_by_people_who_are_there(peer: Peer) -> None:
    form = VisitedPage(peer.issuer, peer.ask().text).fields
    nobody = peer.http.post("/authorize", data={**form, "person": "eve", "say": "allow"})
    answers = [peer.http.post("/authorize", data={**form, "person": "ada", "say": "allow"}) for _ in range(2)]
    assert [nobody.status_code, *(answer.status_code for answer in answers)] == [400, 303, 400]


@pytest.mark.parametrize(
    "changed", [{"redirect_uri": "http://127.0.0.1:9/elsewhere"}, {"redirect_uri": f"{CALLBACK}/"}, {"client_id": "x"}]
)
def test_a_foreign_redirect_sends_nobody_anywhere(peer: Peer, changed: dict[str, str]) -> None:
    answer = peer.ask(**changed)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert "demo" in answer.text


def test_a_code_for_another_address_is_not_taken(peer: Peer) -> None:
    assert refusal(peer.exchange(peer.code(), redirect_uri="http://127.0.0.1:9/other")) == (400, "invalid_grant")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"scope": "openid everything"}, "invalid_scope"),
    ],
)
def test_what_is_asked_wrongly_is_told_to_the_application(peer: Peer, changed: dict[str, str], error: str) -> None:
    answer = peer.ask(**changed)
    assert answer.status_code == 303
    assert said(answer) == {"error": error, "state": "s1", "iss": peer.issuer}


def test_a_refresh_token_serves_once_and_who_brings_it_again_ends_what_came_of_it(peer: Peer) -> None:
    first = peer.exchange(peer.code()).json()
    second = peer.refresh(first["refresh_token"]).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert peer.get("/mail", second["access_token"]).status_code == 200
    assert refusal(peer.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert refusal(peer.refresh(second["refresh_token"])) == (400, "invalid_grant")
    assert refusal(peer.get("/mail", second["access_token"])) == (401, "invalid_token")


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_token_that_is_taken_back_is_over(peer: Peer, kind: str) -> None:
    given = peer.exchange(peer.code()).json()
    assert peer.http.post("/revoke", data={"token": given[kind]}, auth=("app", "wrong")).status_code == 401
    assert peer.get("/mail", given["access_token"]).status_code == 200
    assert peer.http.post("/revoke", data={"token": given[kind]}, auth=("app", SECRET)).status_code == 200
    assert refusal(peer.get("/mail", given["access_token"])) == (401, "invalid_token")
    assert (peer.refresh(given["refresh_token"]).status_code == 200) == (kind == "access_token")


@pytest.mark.parametrize("credentials", [("app", "wrong"), ("other", SECRET), ("", "")])
def test_only_the_application_gets_tokens(peer: Peer, credentials: tuple[str, str]) -> None:
    form = {"grant_type": "authorization_code", "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    code = peer.code()
    asked = peer.http.post("/token", data={**form, "code": code}, auth=credentials)
    assert refusal(asked) == (401, "invalid_client")
    by_form = {"client_id": "app", "client_secret": SECRET}
    assert peer.http.post("/token", data={**form, **by_form, "code": code}).status_code == 200


def test_it_listens_on_loopback_alone_and_under_its_own_address(peer: Peer) -> None:
    at = urlsplit(peer.issuer)
    assert at.hostname == "127.0.0.1"
    others = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} | {"127.0.0.2"}
    for other in others - {"127.0.0.1"}:
        with socket.socket() as probe:
            assert probe.connect_ex((str(other), at.port or 0)) != 0, other
    assert peer.http.get("/", headers={"host": "rebound.example"}).status_code == 400


def test_every_page_says_that_it_is_a_demo(peer: Peer) -> None:
    form = VisitedPage(peer.issuer, peer.ask().text).fields
    shown = [
        peer.http.get("/"), peer.http.get("/nowhere"), peer.ask(), peer.ask(client_id="x"),
        peer.http.post("/authorize", data={**form, "person": "eve", "say": "allow"}),
        peer.http.post("/token", content=b"{}", headers={"content-type": "application/json"}),
        peer.http.get("/authorize?state=1&state=2"),
    ]  # fmt: skip
    assert ["This is the demo provider of toolyard" in answer.text for answer in shown] == [True] * len(shown)
    assert all("frame-ancestors 'none'" in answer.headers["content-security-policy"] for answer in shown)


def test_it_keeps_only_so_much(peer: Peer) -> None:
    provider = DemoProvider(peer.issuer, Application("app", SECRET, CALLBACK))
    ids = [provider.ask(ASKING)[0] for _ in range(MOST_KEPT + 1)]
    assert len(provider._questions) == MOST_KEPT
    assert ids[0] not in provider._questions
