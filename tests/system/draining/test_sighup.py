"""SIGHUP: the settings are read again, a server that runs follows those that can change, and nobody on it notices."""

import http.client
import os
import pty
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ... import warm
from ...conformance.serving import command, environment
from ...conformance.tokens import FOREIGN_SECRET, JWT_SECRET, sign
from ...server.certificates import Signed, signed
from ...server.mcp.talking import Older
from .conftest import Nodes
from .serving import TOOLS, Node, Reply, asked, meanwhile, until

ADA, BEN = "ty_ada_0123456789abcdef", "ty_ben_0123456789abcdef"
PAGE = "https://app.example.com"
READ = "the settings were read again; changed: "
KEPT = "the settings cannot be followed, and those before stay in force: "


def told(node: Node, words: str, *lines: str) -> None:
    """Writes the settings, tells the server, and waits for what it says of them."""
    before = node.said().count(words)
    (node.folder / "toolyard.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    node.tell(signal.SIGHUP)
    until(lambda: node.said().count(words) > before)


def by(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def quick(node: Node, key: str = ADA, **headers: str) -> Reply:
    call = {"tool_id": "Held.Quick", "input": {"text": "x"}}
    return node.ask("POST", "/tools/call", call, by(key) | headers)


def test_a_server_that_runs_follows_its_settings_and_says_which_it_cannot(node: Nodes, tmp_path: Path) -> None:
    keys = f'api_keys = ["ada:{ADA}"]'
    both = f'api_keys = ["ada:{ADA}", "ben:{BEN}"]'
    (tmp_path / "toolyard.toml").write_text(keys + "\n", encoding="utf-8")
    server = node(store="sqlite:ledger.db", sync_wait_s="30")
    assert (quick(server).status, quick(server, BEN).status) == (200, 401)
    kept = server.connection()
    call = {"tool_id": "Held.Quick", "input": {"text": "x"}}
    assert asked(kept, "POST", "/tools/call", call, by(ADA)).status == 200
    with meanwhile() as start:
        held = {"tool_id": "Held.Wait", "call_id": "held", "input": {"name": "held"}}
        running = start(server.ask, "POST", "/tools/call", held, by(ADA))
        stream = Older(f"{server.root}/mcp", "2025-11-25", ADA).initialize().get()
        assert stream.status == 200
        until(lambda: server.has_begun("held"))

        # A key, and a rule about whoever has it.
        hidden = [both, "[[access]]", 'tools = ["Held.Ask"]', "[[access]]", 'who = { key = "ada" }']
        told(server, f"{READ}api_keys, access", *hidden)
        assert quick(server, BEN).status == 400, "there is no such tool for ben"
        assert [each["id"] for each in server.ask("GET", "/tools", None, by(BEN)).json["items"]] == ["Held.Ask@1.0.0"]
        assert quick(server).status == 200

        # Pages and names. One that is taken away is looked at anew also by a connection that was let in by it.
        page, name = {"origin": PAGE}, {"host": "tools.example"}
        assert server.ask("GET", "/tools", None, by(ADA) | page).status == 403
        assert server.ask("GET", "/tools", None, by(ADA) | name).status == 421
        more = [both, f'cors_origins = ["{PAGE}"]', 'allowed_hosts = ["tools.example"]']
        told(server, f"{READ}allowed_hosts, cors_origins, access", *more)
        allowed = server.ask("GET", "/tools", None, by(ADA) | page)
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
        assert [asked(kept, "POST", "/tools/call", call, by(ADA) | name).status for _ in range(2)] == [200, 200]
        told(server, f"{READ}allowed_hosts, cors_origins", both)
        assert asked(kept, "POST", "/tools/call", call, by(ADA) | name).status == 421
        assert server.ask("GET", "/tools", None, by(ADA) | page).status == 403

        # Limits.
        limit = [both, "[[limits]]", 'name = "few"']
        told(server, f"{READ}limits", *limit, "calls_per_minute = 2")
        assert [quick(server).status for _ in range(3)] == [200, 200, 400]
        told(server, f"{READ}limits", *limit, "calls_per_minute = 4")
        assert [quick(server).status for _ in range(3)] == [200, 200, 400], "those before still count"
        told(server, f"{READ}limits", both)
        assert quick(server).status == 200

        # The secret of tokens. One that was verified is not believed for longer than that.
        token = sign({"sub": "tim", "exp": int(time.time()) + 600}, FOREIGN_SECRET)
        told(server, f"{READ}jwt_secret", both, f'jwt_secret = "{FOREIGN_SECRET}"')
        assert quick(server, token).status == 200
        waits = start(server.ask, "POST", "/v1/tools/claim", {"wait": 60}, by(token))
        told(server, f"{READ}jwt_secret", both, f'jwt_secret = "{JWT_SECRET}"')
        assert quick(server, token).status == 401
        assert waits.result(20).status == 401, "what waits is refused as a new request is"
        told(server, f"{READ}jwt_secret", both)

        # What cannot change is said, and said once.
        told(server, "when the server is started again: record, threads", both, 'record = "keyed"', "threads = 3")
        told(server, READ, both, 'record = "keyed"', "threads = 3")
        told(server, f"{READ}log_level", both, 'record = "keyed"', "threads = 3", 'log_level = "debug"')
        assert server.said().count("when the server is started again") == 1

        # What is wrong changes nothing, also where something else beside it could change.
        for wrong in ('log_level = "loud"', "calls = 3", "=", 'tls_key = "nowhere"', "[[access]]\nwho = 3"):
            told(server, KEPT, keys, wrong)
            assert quick(server, BEN).status == 200, wrong
        assert not running.done()
        told(server, f"{KEPT}nobody would need credentials any more", "api_keys = []")
        assert quick(server, "ty_nobody_0123456789abcdef").status == 401

        # A key that is taken away opens nothing any more, and what it had opened ends.
        told(server, f"{READ}api_keys", f'api_keys = ["ben:{BEN}"]', 'log_level = "debug"')
        assert (quick(server).status, quick(server, BEN).status) == (401, 200)
        assert stream.rest() == []
        server.let_end("held")
        told(server, f"{READ}api_keys", both, 'log_level = "debug"')
        assert server.ask("GET", "/v1/calls/held?wait=20", None, by(ADA)).json["value"] == "held"
        running.result()

    # The key file: one more key, which seals from now on.
    old = (tmp_path / "ledger.key").read_text()
    new = "ab" * 32 + "\n"
    (tmp_path / "ledger.key").write_text(new)
    told(server, f"{KEPT}ledger.key: the key that seals now is not among the keys", both)
    (tmp_path / "ledger.key").write_text(new + old)
    told(server, READ, both)
    again = server.ask("POST", "/tools/call", held, by(ADA))
    assert again.json["value"] == "held", "what was recorded before is known"
    assert server.has_begun("held") == 1
    held = {"tool_id": "Held.Wait", "call_id": "later", "input": {"name": "held"}}
    assert server.ask("POST", "/tools/call", held, by(ADA)).json["value"] == "held"
    server.tell()
    assert server.wait() == 0
    (tmp_path / "ledger.key").write_text(new)
    server.start()
    assert server.ask("POST", "/tools/call", held, by(ADA)).json["value"] == "held"
    assert server.has_begun("held") == 2, "it was known by the new key"


def test_what_waits_has_no_more_than_new_rules_give_it(node: Nodes, tmp_path: Path) -> None:
    keys = f'api_keys = ["ada:{ADA}", "ben:{BEN}"]'
    trusted = ["[[workers]]", 'who = { subject = "ada" }', "trusted = true"]
    (tmp_path / "toolyard.toml").write_text("\n".join([keys, *trusted]) + "\n", encoding="utf-8")
    server = node(store="sqlite:ledger.db", sync_wait_s="30")
    far = {"id": "Far.Do", "version": "1.0.0", "description": "x", "input_schema": {"type": "object"}}
    assert server.ask("PUT", "/v1/workers/w", {"tools": [far]}, by(ADA)).status == 200
    alone = {"tool_id": "Held.Alone", "input": {"name": "first"}}
    with meanwhile() as start:
        as_worker = by(ADA) | {"toolyard-worker": "w"}
        claim = start(server.ask, "POST", "/v1/tools/claim", {"tools": ["Far.*"], "wait": 60}, as_worker)
        listed = start(server.ask, "GET", "/v1/tools/requests?wait=60", None, as_worker)
        first = start(server.ask, "POST", "/tools/call", alone, by(BEN))
        until(lambda: server.has_begun("first"))
        in_line = [
            start(server.ask, "POST", "/tools/call", {"tool_id": "Held.Alone", "input": {"name": key}} | keyed, by(ADA))
            for key, keyed in (("second", {}), ("third", {"call_id": "third"}))
        ]
        until(lambda: b"toolyard_calls_running 3.0" in server.ask("GET", "/metrics", None, by(BEN)).json)
        rules = ["[[access]]", 'who = { key = "ada" }', 'tools = ["Held.Quick"]', "[[access]]", 'who = { key = "ben" }']
        told(server, f"{READ}access", keys, *rules, *trusted)
        bens = start(server.ask, "POST", "/tools/call", {"tool_id": "Far.Do", "input": {}, "call_id": "far"}, by(BEN))
        until(lambda: server.ask("GET", "/v1/calls/far", None, by(BEN)).status == 200)
        server.let_end("first")
        assert first.result(20).json["value"] == "first"
        for refused in in_line:
            assert refused.result(20).status == 403
        assert (server.has_begun("second"), server.has_begun("third")) == (0, 0)
        assert quick(server).status == 200
        assert (claim.done(), listed.done()) == (False, False)

        told(server, f"{READ}access", keys, *trusted)
        (given,) = claim.result(20).json["claims"]
        answer = {"response": {"state": "COMPLETE", "value": 1}}
        server.ask("POST", f"/v1/tools/response/direct/{given['requestId']}", answer, as_worker)
        assert bens.result(20).json["value"] == 1
        server.tell()
        listed.result(20)


def shown(port: int, call: Callable[[http.client.HTTPSConnection], Any] | None = None) -> tuple[bytes, Any]:
    """The certificate that a server shows, and what it says to a request."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trusting)
    connection.connect()
    certificate = connection.sock.getpeercert(True)
    assert certificate is not None
    said = None if call is None else call(connection)
    connection.close()
    return certificate, said


def der(made: Signed) -> bytes:
    return ssl.PEM_cert_to_DER_cert(made.pem)


def test_a_certificate_is_replaced_and_one_that_cannot_be_used_is_not(tmp_path: Path) -> None:
    first = signed(tmp_path)
    server = Node(tmp_path, store="sqlite::memory:", tls_cert="cert.pem", tls_key="cert.key")
    with (tmp_path / "log").open("wb") as log:
        process = warm.start(
            command(TOOLS, "--port", str(server.port)),
            cwd=tmp_path,
            env=environment("open") | {"TOOLYARD_TLS_CERT": "cert.pem", "TOOLYARD_TLS_KEY": "cert.key"},
            stdout=log,
            stderr=log,
        )
    try:
        said = (tmp_path / "log").read_text
        until(lambda: "Stop with Ctrl-C." in said())
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        kept = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=trusting)
        assert asked(kept, "GET", "/ready").status == 200
        assert shown(server.port)[0] == der(first)
        second = signed(tmp_path)
        process.send_signal(signal.SIGHUP)
        until(lambda: READ in said())
        assert shown(server.port, lambda each: asked(each, "GET", "/ready").status) == (der(second), 200)
        assert asked(kept, "GET", "/ready").status == 200, "who is connected stays so"
        signed(tmp_path, "other").key_file.rename(tmp_path / "cert.key")
        process.send_signal(signal.SIGHUP)
        until(lambda: KEPT in said())
        assert "is not the key of the certificate" in said()
        assert shown(server.port)[0] == der(second)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_terminal_that_is_closed_ends_the_server_in_it(
    tmp_path: Path, processes: int, request: pytest.FixtureRequest
) -> None:
    ours, theirs = pty.openpty()
    more = ["--processes", "2", "--store", request.getfixturevalue("postgres_url")] if processes == 2 else []
    with (tmp_path / "log").open("wb") as log:
        process = warm.start(
            command(TOOLS, "--port", "0", *more),
            cwd=tmp_path,
            env=environment("open"),
            stdin=theirs,
            stdout=log,
            stderr=log,
            preexec_fn=warm.take_terminal,
        )
    os.close(theirs)
    try:
        until(lambda: "Stop with Ctrl-C." in (tmp_path / "log").read_text())
        os.close(ours)
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
