"""The operator's verbs and an app that is mounted into another: it has the ledger, and no address that it knows."""

import asyncio
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import httpx2
import pytest

from toolyard import App, Toolkit
from toolyard.lazy import load

from .. import warm
from ..conformance.serving import environment, stop
from .processes import DEADLINE_S, Ended, toolyard

MAIN = '''
from fastapi import FastAPI

from toolyard import App, Context, Toolkit, secret

kit = Toolkit("Kit", version="1.0.0")


@kit.tool(approval="always", requires=secret("BANK_KEY"))
def pay(cents: int, ctx: Context) -> str:
    """Pays."""
    return f"{cents} paid with {len(ctx.secret('BANK_KEY'))} characters"


tools = App(kit).asgi()
api = FastAPI(lifespan=tools.lifespan)
api.mount("/yard", tools)
'''
TWO = '''
from contextlib import asynccontextmanager

from fastapi import FastAPI

from toolyard import App, Toolkit


def kit(name):
    made = Toolkit(name, version="1.0.0")

    @made.tool
    def hello() -> str:
        """Says hello."""
        return name

    return made


one = App(kit("One")).asgi(store="sqlite:one.db")
two = App(kit("Two")).asgi(store="sqlite:two.db")


@asynccontextmanager
async def lifespan(api):
    async with one.lifespan(api), two.lifespan(api):
        yield


api = FastAPI(lifespan=lifespan)
api.mount("/one", one)
api.mount("/two", two)
'''
TOKEN = "operators-token-0123456789abcdef0123456789"


class Mounted:
    """uvicorn with the app, and its operator's shell in the same folder."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]") -> None:
        self.folder, self.process = folder, process
        self.said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.said.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                self.address = found[1]
                return
        raise AssertionError(f"it did not start: {''.join(self.said)}")

    def call(self, tool: str, path: str = "/yard", **input: Any) -> Any:
        body = {"tool_id": tool, "call_id": "c-1", "input": input}
        return httpx2.post(f"{self.address}{path}/tools/call", json=body, timeout=DEADLINE_S).json()

    def run(self, *words: str, given: str = "", **variables: str) -> Ended:
        return toolyard(*words, folder=self.folder, input=given, variables=variables)

    def end(self, number: int = SIGTERM) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(DEADLINE_S)


@contextmanager
def mounted(folder: Path, main: str = MAIN, **variables: str) -> Iterator[Mounted]:
    (folder / "main.py").write_text(main, encoding="utf-8")
    process = warm.start(
        [sys.executable, "-m", "uvicorn", "main:api", "--port", "0"],
        cwd=folder,
        env=environment("open") | {"PYTHONUNBUFFERED": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Mounted(folder, process)
    finally:
        if process.poll() is None:
            stop(process)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def runtime() -> Iterator[Path]:
    """With a name that is short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="yard-") as made:
        yield Path(made)


def door(folder: Path, ledger: str = "toolyard.db") -> Path:
    return Path(json.loads((folder / f"{ledger}.admin").read_text())["socket"])


def test_a_call_that_needs_a_person_is_approved_and_runs(tmp_path: Path) -> None:
    with mounted(tmp_path) as app:
        assert app.run("secrets", "set", "BANK_KEY", "--tool", "Kit.Pay", given="sesame").code == 0
        assert app.call("Kit.Pay", cents=7)["missing_requirements"]["approval"]
        waiting = app.run("approvals")
        assert (waiting.code, waiting.err) == (0, "")
        assert waiting.out.startswith("1  Kit.Pay@1.0.0  asked by local (default)")
        assert app.run("approve", "1") == Ended(0, "c-1 is approved\n", "")
        assert app.call("Kit.Pay", cents=7)["value"] == "7 paid with 6 characters"
        assert json.loads(app.run("show", "c-1").out)["state"] == "COMPLETE"
        assert app.end() in (0, -SIGTERM)
    assert not list(tmp_path.glob("*.sock")), "the door is gone with the app"
    assert not list(tmp_path.glob("*.admin"))


VERBS = [
    ["approvals"], ["calls"], ["keys", "list"], ["secrets", "list"], ["connections"], ["console"], ["audit", "tail"],
    ["audit", "verify"], ["audit", "export"], ["explain", "Kit.Pay", "--as", "ada"], ["lock", "--workers"],
    ["secrets", "rotate"], ["upstreams"], ["upstreams", "--json"],
]  # fmt: skip
ABSENT = [
    ["approve", "9"], ["reject", "9"], ["show", "absent"], ["cancel", "absent"], ["resolve", "absent", "--rerun"],
    ["keys", "revoke", "absent"], ["secrets", "remove", "ABSENT"],
    ["connections", "disconnect", "github", "--user", "ada"],
]  # fmt: skip
"""Whose answer is the server's: there is no such thing."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    with mounted(tmp_path_factory.mktemp("mounted"), TOOLYARD_OPERATOR_TOKEN=TOKEN) as app:
        yield app


@pytest.mark.parametrize("verb", [*VERBS, *ABSENT], ids=" ".join)
def test_every_verb_reaches_it_by_its_ledger(app: Mounted, verb: list[str]) -> None:
    ended = app.run(*verb)
    assert ended.code == (1 if verb in ABSENT else 0), ended
    (app.folder / "tools.lock").unlink(missing_ok=True)


@pytest.mark.parametrize("verb", [*VERBS, *ABSENT], ids=" ".join)
def test_every_verb_reaches_it_from_anywhere(
    app: Mounted, verb: list[str], here: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its socket or its address, with the operator's token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_OPERATOR_TOKEN", TOKEN)
    for server in (f"unix:{door(app.folder)}", f"{app.address}/yard"):
        ended = here(*verb, "--server", server)
        assert ended.code == (1 if verb in ABSENT else 0), ended
        assert [path.name for path in tmp_path.iterdir() if path.name != "tools.lock"] == [], "no ledger was made here"


@pytest.mark.parametrize("verb", [*VERBS, *ABSENT], ids=" ".join)
def test_every_verb_says_how_to_name_a_server(verb: list[str], here: Callable[..., Ended]) -> None:
    words = verb[:2] if verb[0] in ("keys", "secrets", "audit") or "disconnect" in verb else verb[:1]
    assert "--server" in here(*words, "--help").out


def test_a_server_that_is_named_wants_the_operators_token(app: Mounted, tmp_path: Path) -> None:
    for server in (f"unix:{door(app.folder)}", f"{app.address}/yard"):
        without = toolyard("approvals", "--server", server, folder=tmp_path)
        assert (without.code, without.out) == (2, "")
        assert "set TOOLYARD_OPERATOR_TOKEN" in without.err
        variables = {"TOOLYARD_OPERATOR_TOKEN": "w" * 32}
        wrong = toolyard("approvals", "--server", server, folder=tmp_path, variables=variables)
        assert (wrong.code, wrong.out) == (1, "")
        assert "credentials are not valid" in wrong.err


def test_the_token_goes_over_no_open_line(tmp_path: Path) -> None:
    variables = {"TOOLYARD_OPERATOR_TOKEN": TOKEN}
    ended = toolyard("approvals", "--server", "http://192.0.2.1", folder=tmp_path, variables=variables)
    assert (ended.code, ended.out) == (2, "")
    assert "the operator's token goes to https://" in ended.err


def test_a_server_and_a_token_in_the_environment_are_enough(app: Mounted, tmp_path: Path) -> None:
    variables = {"TOOLYARD_OPERATOR_TOKEN": TOKEN, "TOOLYARD_SERVER": f"{app.address}/yard"}
    for verb in (["approvals"], ["calls", "--json"], ["audit", "tail"], ["keys", "list"]):
        assert toolyard(*verb, folder=tmp_path, variables=variables).code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_console_says_that_the_address_is_not_known(app: Mounted) -> None:
    ended = app.run("console")
    assert ended.out.startswith("/console/enter\ncode ")
    assert ended.err == (
        "The app that has this ledger does not know at which address it is mounted: open this path below it, or set "
        "public_url to it\n"
    )


def test_with_its_address_set_the_console_has_it(tmp_path: Path) -> None:
    with mounted(tmp_path, TOOLYARD_PUBLIC_URL="https://app.example.com/yard") as app:
        ended = app.run("console")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("https://app.example.com/yard/console/enter\n")


def test_the_door_is_its_owners_and_leads_to_nothing_else(app: Mounted) -> None:
    path = door(app.folder)
    assert path == app.folder / "toolyard.db.sock"
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        for credentials in ({}, {"authorization": "Bearer wrong"}):
            assert client.get("/v1/admin/calls", headers=credentials).status_code == 401
        for other in ("/tools", "/", "/health", "/mcp", "/console", "/v1/calls"):
            assert client.get(other, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 404


def test_a_killed_app_leaves_a_door_that_the_next_one_replaces(tmp_path: Path) -> None:
    with mounted(tmp_path) as app:
        assert app.run("secrets", "set", "BANK_KEY", given="sesame").code == 0
        assert app.call("Kit.Pay", cents=7)["missing_requirements"]["approval"]
        assert app.end(SIGKILL) == -SIGKILL
    left = door(tmp_path)
    assert left.exists()
    opened = toolyard("approvals", folder=tmp_path)
    assert (opened.code, opened.out[:3]) == (0, "1  "), "nobody has the ledger, so it is opened"
    with mounted(tmp_path) as app:
        assert app.run("approvals").out[:3] == "1  "
        assert app.run("reject", "1").code == 0


def test_two_apps_have_two_doors(tmp_path: Path) -> None:
    with mounted(tmp_path, TWO) as app:
        for name in ("one", "two"):
            assert app.call(f"{name.title()}.Hello", f"/{name}")["value"] == name.title()
        assert door(tmp_path, "one.db") != door(tmp_path, "two.db")
        for name in ("one", "two"):
            (call,) = json.loads(app.run("calls", "--json", "--store", f"sqlite:{name}.db").out)
            assert call["tool"] == f"{name.title()}.Hello@1.0.0"


def _private(folder: Path) -> None:
    assert folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_path_that_is_too_long_for_a_socket_is_no_hindrance(tmp_path: Path, runtime: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with mounted(deep, XDG_RUNTIME_DIR=str(runtime)) as app:
        made = door(deep)
        assert made.parent == runtime / "toolyard"
        _private(made.parent)
        assert app.run("approvals").code == 0
        assert app.end() in (0, -SIGTERM)
    assert not made.parent.exists(), "nothing is left of it"


def test_where_others_may_write_the_door_is_elsewhere(tmp_path: Path, runtime: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with mounted(shared, XDG_RUNTIME_DIR=str(runtime)) as app:
        assert door(shared).parent == runtime / "toolyard"
        assert app.run("approvals").code == 0


def test_a_folder_that_somebody_else_prepared_is_not_used(tmp_path: Path, runtime: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (runtime / "toolyard").mkdir()
    (runtime / "toolyard").chmod(0o777)
    with mounted(shared, XDG_RUNTIME_DIR=str(runtime), TMPDIR=str(runtime)) as app:
        made = door(shared)
        assert made.parent == runtime / f"toolyard-{os.geteuid()}"
        _private(made.parent)
        assert app.run("approvals").code == 0


def test_what_lies_at_the_sockets_place_is_left_there(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "toolyard.db.sock").write_text("mine")
    with mounted(tmp_path, XDG_RUNTIME_DIR=str(runtime)) as app:
        assert app.run("approvals").code == 0
    assert (tmp_path / "toolyard.db.sock").read_text() == "mine"


def test_a_file_that_others_can_write_is_not_believed(tmp_path: Path) -> None:
    """Whoever planted it would be sent the secrets."""
    with mounted(tmp_path) as app:
        admin = tmp_path / "toolyard.db.admin"
        admin.chmod(0o666)
        ended = app.run("secrets", "set", "BANK_KEY", given="sesame")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "toolyard: toolyard.db.admin: others can write this file, so it cannot be trusted; remove it\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_believed(tmp_path: Path) -> None:
    with mounted(tmp_path) as app:
        os.chown(tmp_path / "toolyard.db.admin", 12345, 12345)
        assert "so it cannot be trusted" in app.run("approvals").err


def test_a_ledger_has_one_door_by_whatever_name(tmp_path: Path) -> None:
    with mounted(tmp_path) as app:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "link.db").symlink_to(tmp_path / "toolyard.db")
        assert app.run("approvals", "--store", "sqlite:elsewhere/link.db").code == 0


def test_who_waits_at_the_door_does_not_keep_the_app_from_stopping(tmp_path: Path) -> None:
    with mounted(tmp_path) as app:
        assert app.run("secrets", "set", "BANK_KEY", given="sesame").code == 0
        assert app.call("Kit.Pay", cents=7)["missing_requirements"]["approval"]
        token = json.loads((tmp_path / "toolyard.db.admin").read_text())["token"]
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(door(tmp_path)))
            line.sendall(f"GET /v1/admin/calls/c-1?wait=20 HTTP/1.1\r\nauthorization: Bearer {token}\r\n\r\n".encode())
            assert app.run("approvals").code == 0, "it is past the one that waits"
            assert app.end() in (0, -SIGTERM)
            line.settimeout(DEADLINE_S)
            assert line.recv(4096).startswith((b"HTTP/1.1 503", b"HTTP/1.1 200"))


REBOUND = "rebound.evil.example"
KEY = "ty_0123456789abcdef0123456789"


def status(app: Mounted, host: str, **headers: str) -> int:
    return httpx2.get(f"{app.address}/yard/tools", headers={"host": host, **headers}, trust_env=False).status_code


def test_a_page_that_found_this_machine_under_its_own_name_is_refused(tmp_path: Path) -> None:
    """Nobody is asked for credentials here, so such a page could read every call."""
    with mounted(tmp_path, TOOLYARD_ALLOWED_HOSTS="") as app:
        assert [status(app, name) for name in ("127.0.0.1", "localhost:8000", "[::1]:9")] == [200] * 3
        assert [status(app, name) for name in (REBOUND, f"{REBOUND}:80", "[::1].evil.com", "127.0.0.1:abc")] == [
            421
        ] * 4
        assert app.run("keys", "new", "first").code == 0
        assert status(app, REBOUND) == 401, "who needs credentials may use any name"


def test_a_mounted_app_behind_a_proxy_answers_to_the_names_that_it_is_given(tmp_path: Path) -> None:
    with mounted(tmp_path, TOOLYARD_ALLOWED_HOSTS="tools.example", TOOLYARD_API_KEYS=KEY) as app:
        assert status(app, "tools.example", authorization=f"Bearer {KEY}") == 200
        assert status(app, REBOUND, authorization=f"Bearer {KEY}") == 421, "names that are given are the only ones"


def test_a_mounted_app_with_credentials_answers_to_any_name(tmp_path: Path) -> None:
    with mounted(tmp_path, TOOLYARD_ALLOWED_HOSTS="", TOOLYARD_API_KEYS=KEY) as app:
        assert status(app, "behind.a.proxy.example", authorization=f"Bearer {KEY}") == 200


def test_other_ways_into_a_mounted_app_are_not_those_of_a_browser() -> None:
    """A test client names a server of its own, and a Unix socket has no name."""
    made = load("asgi")(App(Toolkit("Kit")), store="sqlite::memory:")

    async def asked() -> list[int]:
        async with made.lifespan():
            transport = httpx2.ASGITransport(made)
            async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
                return [(await client.get("/tools")).status_code]

    assert asyncio.run(asked()) == [200]
