"""A provider that is none of OpenID Connect: fixed addresses, scopes with commas, a token without an end, refusals with
status 200."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from msgspec.structs import replace as changed

from toolyard.model.clock import Clock
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.trust.provider_settings import PRESETS, Endpoints

from .stage import ManualClock, Person, Scene
from .tools import kit


class Hub(BaseHTTPRequestHandler):
    """Lets everybody in at once. The code `too-late` is not good any more: then it says again what it was told."""

    code = "good"
    asked: list[dict[str, list[str]]] = []
    told: list[dict[str, list[str]]] = []

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/user":
            self._say({"login": "octocat"} if self.headers["authorization"] == "Bearer gho_1" else {})
            return
        query = parse_qs(parts.query)
        self.asked.append(query)
        back = urlencode({"code": self.code, "state": query["state"][0]})
        self.send_response(302)
        self.send_header("location", f"{query['redirect_uri'][0]}?{back}")
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        if form["code"] != ["good"] or "code_verifier" not in form:
            self.told.append(form)
            echo = f"The code is over: {form} {self.headers['authorization']}"
            self._say({"error": "bad_verification_code", "error_description": echo})
            return
        self._say({"access_token": "gho_1", "token_type": "bearer", "scope": "mail.read,repo"})

    def _say(self, body: Any) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: Any) -> None:
        """Quietly."""


@contextmanager
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def yard(address: str, clock: ManualClock) -> Yard:
    endpoints = Endpoints(f"{address}/authorize", f"{address}/token", account=f"{address}/user")
    provider = changed(PRESETS["github"], id="idp", client_id="me", client_secret="hush", endpoints=endpoints)
    return Yard([kit], replace(exactly(), providers=[provider]), Clock(now=clock))


def test_an_account_is_connected_and_serves_for_good() -> None:
    async def story(address: str) -> None:
        clock = ManualClock()
        made = yard(address, clock)
        async with made.lifetime():
            stage = Scene(made, clock)
            link = await stage.challenge()
            async with stage.browser() as browser:
                person = Person(browser, "octocat")
                done = await person.open((await person.leave(link)).goes_to)
                assert (done.status, "The account octocat at idp is connected" in done.text) == (200, True)
            sent = Hub.asked[-1]
            assert sent["code_challenge_method"] == ["S256"]
            assert "nonce" not in sent
            assert (await stage.held("local"))["scopes"] == ["mail.read", "repo"]
            clock.ahead = 10 * 365 * 86400
            assert (await stage.call())["status"] == 200
            assert (await stage.call("Post.Send"))["status"] == 400, "that was not allowed"
            ended = await made.connecting.connections.disconnect("default", "local", "idp")  # type: ignore[union-attr]
            assert ended is not None
            assert ended[1] is False, "it has no address to take tokens back"

    with hub() as address:
        asyncio.run(story(address))


def test_a_refusal_with_status_200_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    """And what it echoes of what was sent in confidence is not in the log."""

    async def story(address: str) -> None:
        made = yard(address, ManualClock())
        async with made.lifetime():
            stage = Scene(made, ManualClock())
            link = await stage.challenge()
            async with stage.browser() as browser:
                person = Person(browser, "octocat")
                failed = await person.open((await person.leave(link)).goes_to)
                assert (failed.status, "did not give access" in failed.text) == (400, True)
            assert await stage.status(link) == "failed"

    with hub() as address:
        Hub.code = "too-late"
        try:
            asyncio.run(story(address))
        finally:
            Hub.code = "good"
    assert "The code is over" in caplog.text
    verifier = Hub.told[-1]["code_verifier"][0]
    in_confidence = ("too-late", verifier, "hush", base64.b64encode(b"me:hush").decode())
    assert [each for each in in_confidence if each in caplog.text] == []
