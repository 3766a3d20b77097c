"""What an issuer says of who signed in is believed only if it is that issuer's, for this server, for this sign-in, and
valid now."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from ...trust.credentials.identity_provider import Provider
from .signing import Visitor, connections, door, issuer

KEY, ANOTHER = (ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256"}) for _ in range(2))
Change = Callable[[dict[str, Any]], dict[str, Any]]


class Oracle(BaseHTTPRequestHandler):
    """An issuer at which everybody is ada, at once, and which says of it what a test likes."""

    change: Change = staticmethod(lambda claims: claims)
    key: ECKey = KEY
    gives_id_token = True
    nonce = ""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/auth":
            query = parse_qs(parts.query)
            type(self).nonce = query["nonce"][0]
            self.send_response(302)
            back = urlencode({"code": "good", "state": query["state"][0]})
            self.send_header("location", f"{query['redirect_uri'][0]}?{back}")
            self.send_header("content-length", "0")
            self.end_headers()
        elif parts.path == "/keys":
            self._say({"keys": [KEY.as_dict(private=False)]})
        else:
            own = self.own()
            ends = {"authorization_endpoint": f"{own}/auth", "token_endpoint": f"{own}/token"}
            self._say({"issuer": own, "jwks_uri": f"{own}/keys", **ends})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        claims = {"iss": self.own(), "aud": "front-door", "sub": "ada", "exp": int(time.time()) + 60}
        claims["nonce"] = self.nonce
        header = {"alg": "ES256", "kid": "one"}
        token = {"id_token": jwt.encode(header, type(self).change(claims), self.key)} if self.gives_id_token else {}
        self._say({"access_token": "a", "token_type": "Bearer", **token})

    def own(self) -> str:
        return f"http://{self.headers['host']}"

    def _say(self, body: Any) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@pytest.fixture
def oracle() -> Iterator[tuple[type[Oracle], str]]:
    handler = type("OneOracle", (Oracle,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running = threading.Thread(target=server.serve_forever, args=(0.01,))
    running.start()
    yield handler, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    running.join()
    server.server_close()


def without(name: str) -> Change:
    return lambda claims: {each: value for each, value in claims.items() if each != name}


WRONG: dict[str, dict[str, Any]] = {
    "another audience": {"change": lambda claims: claims | {"aud": "https://tools.example"}},
    "no audience": {"change": without("aud")},
    "made for another client": {"change": lambda claims: claims | {"aud": ["front-door", "x"], "azp": "x"}},
    "another nonce": {"change": lambda claims: claims | {"nonce": "another"}},
    "no nonce": {"change": without("nonce")},
    "another issuer": {"change": lambda claims: claims | {"iss": "https://evil.example"}},
    "expired": {"change": lambda claims: claims | {"exp": int(time.time()) - 1}},
    "no end": {"change": without("exp")},
    "no subject": {"change": without("sub")},
    "another key": {"key": ANOTHER},
    "no ID token": {"gives_id_token": False},
}


@pytest.mark.parametrize("wrong", ["", *WRONG])
def test_an_id_token_counts_only_if_all_of_it_is_right(
    wrong: str, oracle: tuple[type[Oracle], str], provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    handler, address = oracle
    for name, value in WRONG.get(wrong, {}).items():
        setattr(handler, name, staticmethod(value) if name == "change" else value)

    async def story() -> None:
        async with door(provider, issuers=[issuer(address)]) as stage, stage.browser() as browser:
            link = await stage.challenge(user_id="ada")
            page = await Visitor(browser, "ada").sign_in_at(link)
            if wrong:
                assert (page.status, "did not say who you are" in page.text) == (400, True)
                assert "refresh" not in page.text
                assert "invalid_id_token" in caplog.text
            else:
                assert (page.status, page.goes_to.startswith(provider.issuer)) == (200, True)
            assert await stage.status(link) == "pending"
            assert await connections(stage) == []

    asyncio.run(story())
