"""What answers a verb may be no server of toolyard's, and what it is given no address: a sentence says so."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .processes import toolyard

TOKEN = {"TOOLYARD_OPERATOR_TOKEN": "operators-token-0123456789abcdef0123456789"}
VERBS = [
    ["list"], ["call", "A.B", "--yes"], ["calls"], ["cancel", "x"], ["approvals"], ["approve", "1"], ["keys", "list"],
    ["keys", "new", "k"], ["secrets", "list"], ["connections"], ["audit", "tail"], ["explain", "A.B", "--as", "ada"],
    ["console"], ["resolve", "x", "--rerun"], ["upstreams"], ["upstreams", "--json"],
]  # fmt: skip


class Strange(BaseHTTPRequestHandler):
    """Answers everything with the same."""

    body = b""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Quietly."""


@pytest.fixture(scope="module")
def strange() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Strange)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_an_answer_that_is_none_is_said_in_a_sentence(verb: list[str], strange: str, tmp_path: Path) -> None:
    rows = ("tools", "calls", "approvals", "keys", "secrets", "connections", "chains", "upstreams")
    for body in (b"[]", b"{}", b"<html>", json.dumps({name: [{}] for name in rows}).encode()):
        Strange.body = body
        ended = toolyard(*verb, "--server", strange, folder=tmp_path, variables=TOKEN)
        assert "Traceback" not in ended.err, body


@pytest.mark.parametrize("server", ["http://[::1].evil.com", "http://127.0.0.1:80.evil.com", "http://[::1", "nonsense"])
@pytest.mark.parametrize("verb", [["list"], ["calls"], ["approvals"]], ids=" ".join)
def test_so_is_an_address_that_is_none(verb: list[str], server: str, tmp_path: Path) -> None:
    ended = toolyard(*verb, "--server", server, folder=tmp_path, variables=TOKEN)
    assert (ended.code in (1, 2), "Traceback" in ended.err, bool(ended.err)) == (True, False, True)
