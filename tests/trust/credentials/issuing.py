"""A server on loopback that answers as an issuer would, or as a bad one, and counts what it is asked for."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OPENID = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"
KEYS = "/keys"


class Answer:
    """Anything an HTTP server may say."""

    def __init__(self, body: Any, status: int = 200, **headers: str) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.status, self.headers = status, headers


class Site:
    """What is at which path, and how often each was asked for."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, Answer] = {}
        self.asked: Counter[str] = Counter()

    def publish(self, *keys: dict[str, Any]) -> None:
        """The keys, and the metadata that says where they are."""
        self.answers[OPENID] = Answer({"issuer": self.address, "jwks_uri": self.address + KEYS})
        self.answers[KEYS] = Answer({"keys": keys})


@contextmanager
def issuing() -> Iterator[Site]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.site = site = Site(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        site.asked[self.path] += 1
        answer = site.answers.get(self.path, Answer(b"not here", 404))
        self.send_response(answer.status)
        for name, value in {"content-length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(answer.body)
        except ConnectionError:
            pass

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads it."""
