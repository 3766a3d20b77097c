"""Why a worker does not start: one sentence, and an exit code."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..cli.processes import toolyard
from ..conformance.serving import running
from .processes import TOOLS, Yard

OWN_TOOL = '''
from toolyard import Toolkit

own = Toolkit("Own", version="1.0.0")


@own.tool
def here(really: bool) -> str:
    """Is here, too."""
    return "here"
'''


def test_a_tool_that_the_server_has_itself(server: Yard, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_TOOL, encoding="utf-8")
    ended = toolyard("worker", "mine.py", "--server", server.url, folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.endswith("Own.Here: Own is a toolkit of the server itself; choose another name for the toolkit\n")


def test_credentials(tmp_path: Path) -> None:
    with running("keys", tmp_path) as url:
        for key in ([], ["--key", "ty_not_this_one_0123456789"]):
            ended = toolyard("worker", TOOLS, "--server", url, *key, folder=tmp_path)
            assert (ended.code, ended.out) == (1, "")
            assert "redentials are" in ended.err.splitlines()[0]
            assert "Traceback" not in ended.err


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Some web server that is not ours."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_DELETE = do_PUT

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("status", "body"), [(404, b"<h1>Not Found</h1>"), (200, b"<h1>Welcome</h1>"), (501, b"")])
def test_a_server_of_another_kind(tmp_path: Path, status: int, body: bytes) -> None:
    with answering(status, body) as url:
        ended = toolyard("worker", TOOLS, "--server", url, folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[0] == f"{url} does not take workers; is it a toolyard server?"
