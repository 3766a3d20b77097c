"""`/v1/admin`: who may ask, what is told, and the file that tells where."""

import asyncio
import http.client
import json
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from tests.cli.operated import ADA, BOB, CALLERS, Yard
from tests.cli.processes import DEADLINE_S, Served
from toolyard import Client, Toolkit
from toolyard.model.call import CallTool, Outcome
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.errors import Refused, SetupError
from toolyard.model.run import Run
from toolyard.server.admin import endpoint_file
from toolyard.server.admin.calls import CallAdmin
from toolyard.server.admin.endpoint_file import Endpoint, EndpointFile, read
from toolyard.server.ledger import ledger_file
from toolyard.store.sqlite.store import SqliteStore
from toolyard.wires.admin.calls import WhichCall

Answer = tuple[int, Any]
kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def quick() -> None:
    """Does nothing."""


(TOOL,) = kit.tools


class Operated:
    """A server, and its operator."""

    def __init__(self, yard: Yard, served: Served) -> None:
        self.yard, self.served = yard, served
        self.access = json.loads(yard.admin.read_text())

    def send(
        self, path: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        found = re.fullmatch(r"http://(.+):(\d+)", self.served.address)
        assert found is not None
        connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=DEADLINE_S)
        try:
            sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
            given = {"content-type": "application/json"} if sent else {}
            connection.request(method, path, sent, given | (headers or {}))
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def ask(self, path: str, method: str = "GET", body: Any = None) -> Answer:
        headers = {"authorization": f"Bearer {self.access['token']}"}
        status, _, answer = self.send(f"/v1/admin/calls{path}", method, body, headers)
        return status, json.loads(answer)

    def call(self, key: str, call_id: str, **options: Any) -> None:
        with Client(self.served.address, key=key) as client:
            client.call("Kit.Quick", {"text": call_id}, call_id=call_id, **options)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """A server with two callers: each has a call of its own, and both have one called `shared`; one was lost."""
    yard = Yard(tmp_path_factory.mktemp("guarded"))
    yard.lose("lost")
    with yard.serving(**CALLERS) as served:
        operated = Operated(yard, served)
        operated.call(ADA, "of ada", user_id="u-1")
        operated.call(BOB, "of/bob")
        operated.call(ADA, "shared")
        operated.call(BOB, "shared")
        yield operated


# --- the file ------------------------------------------------------------------------------------


def test_the_file_has_the_address_and_a_token_for_its_owner_alone(guarded: Operated) -> None:
    path = guarded.yard.admin
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    door = str(path.with_suffix(".sock"))
    assert guarded.access == {"address": guarded.served.address, "token": guarded.access["token"], "socket": door}
    assert len(guarded.access["token"]) >= 43
    assert [each.name for each in path.parent.glob("*.admin*")] == ["toolyard.db.admin"], "nothing else is left of it"


def test_the_file_is_there_while_the_server_is_and_has_another_token_each_time(tmp_path: Path) -> None:
    yard, tokens = Yard(tmp_path), set()
    (tmp_path / "deep").mkdir()
    for _ in range(2):
        with yard.serving(TOOLYARD_STORE="sqlite:deep/other.db") as served:
            there = tmp_path / "deep" / "other.db.admin"
            tokens.add(json.loads(there.read_text())["token"])
            assert served.end(SIGTERM) == 0
        assert not there.exists()
    assert len(tokens) == 2


def test_the_file_replaces_one_that_was_left_behind(tmp_path: Path) -> None:
    left = tmp_path / "a.db.admin"
    left.write_text("left behind")
    left.chmod(0o644)
    (tmp_path / "a.db").touch()
    with EndpointFile(tmp_path / "a.db", Endpoint("http://127.0.0.1:1", "token", "/a.sock")):
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        access = read(tmp_path / "a.db")
    assert access is not None
    assert (access.address, access.token) == ("http://127.0.0.1:1", "token")
    assert not left.exists()


@pytest.mark.parametrize("store", ["sqlite::memory:", "postgresql://localhost/x"])
def test_what_is_no_file_has_nothing_beside_it(store: str) -> None:
    assert ledger_file(store) is None


def test_a_file_that_cannot_be_written_comes_as_soon_as_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server serves all the same, and leaves nothing else behind, however often it tries."""
    monkeypatch.setattr(endpoint_file, "AGAIN_S", 0.001)
    tried = threading.Event()
    replace = os.replace

    def seen(made: str, path: Path) -> None:
        tried.set()
        replace(made, path)

    monkeypatch.setattr(os, "replace", seen)
    blocked = tmp_path / "a.db.admin"
    (tmp_path / "a.db").touch()

    async def play() -> None:
        blocked.mkdir()
        with EndpointFile(tmp_path / "a.db", Endpoint("", "token", "/a.sock")):
            assert "cannot be written" in caplog.text
            tried.clear()
            while not tried.is_set():
                await asyncio.sleep(0)
            assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.admin"]
            blocked.rmdir()
            while not blocked.exists():
                await asyncio.sleep(0)
            assert read(tmp_path / "a.db") == Endpoint("", "token", "/a.sock")
        assert os.listdir(tmp_path) == ["a.db"]

    asyncio.run(play())


def test_a_file_of_somebody_elses_server_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SetupError, match=r"a\.db\.admin: only who runs the server may look after its calls"):
        read(tmp_path / "a.db")


# --- who may ask ---------------------------------------------------------------------------------

ASKED = [("GET", ""), ("GET", "/of%20ada"), ("POST", "/of%20ada/cancel"), ("POST", "/of%20ada/resolve")]
WRONG = {"authorization": "Bearer wrong"}
REFUSED: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({"authorization": "Bearer "}, {}),
    ({"authorization": "Basic eDp5"}, {}),
    ({"oxp-api-key": ADA}, {}),
    (WRONG, WRONG),
    ({"authorization": f"Bearer {ADA}"}, WRONG),
]
"""What is sent, and what a stranger would have to send a caller's route for the same answer."""


@pytest.mark.parametrize(("method", "path"), ASKED)
@pytest.mark.parametrize(("headers", "strange"), REFUSED, ids=str)
def test_whoever_else_asks_is_refused_as_a_stranger_is(
    guarded: Operated, method: str, path: str, headers: dict[str, str], strange: dict[str, str]
) -> None:
    body = {"rerun": True} if path.endswith("resolve") else None
    refused = guarded.send(f"/v1/admin/calls{path}", method, body, headers)
    assert refused[0] == 401
    assert refused == guarded.send("/v1/calls", headers=strange)


def test_the_token_in_the_place_of_a_key_is_refused(guarded: Operated) -> None:
    assert guarded.send("/v1/admin/calls", headers={"oxp-api-key": guarded.access["token"]})[0] == 401


def test_the_operators_token_is_no_callers_key(guarded: Operated) -> None:
    headers = {"authorization": f"Bearer {guarded.access['token']}"}
    assert guarded.send("/v1/calls", headers=headers)[0] == 401
    assert guarded.send("/tools", headers=headers)[0] == 401


def test_nobody_is_let_in_for_being_on_this_machine(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with yard.serving() as served:
        operated = Operated(yard, served)
        assert operated.send("/v1/calls")[0] == 200
        status, headers, body = operated.send("/v1/admin/calls")
        assert (status, json.loads(body)) == (401, {"message": "Credentials are needed"})
        assert headers["www-authenticate"].startswith("Bearer")
        assert operated.send("/v1/admin/calls", headers={"authorization": "Bearer x"})[0] == 401
        assert operated.ask("")[0] == 200


def test_the_status_of_a_refusal_is_the_one_that_is_set(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with yard.serving(TOOLYARD_AUTH_FAILURE_STATUS="400", **CALLERS) as served:
        operated = Operated(yard, served)
        assert operated.send("/v1/admin/calls") == operated.send("/v1/calls")
        assert operated.send("/v1/admin/calls")[0] == 400


def test_they_are_not_in_the_document_of_the_api(guarded: Operated) -> None:
    document = guarded.send("/openapi.json")[2]
    assert b"/v1/calls" in document
    assert b"admin" not in document
    assert b"admin" not in guarded.send("/docs")[2]


# --- what is told --------------------------------------------------------------------------------


def ids(answer: Answer) -> list[tuple[str, str]]:
    assert answer[0] == 200
    return [(call["callId"], call["caller"]) for call in answer[1]["calls"]]


def test_the_calls_of_all_callers_are_listed_newest_first(guarded: Operated) -> None:
    everyone = [("shared", "bob"), ("shared", "ada"), ("of/bob", "bob"), ("of ada", "ada"), ("lost", "local")]
    assert ids(guarded.ask("")) == everyone
    assert ids(guarded.ask("?state=ERROR")) == everyone[-1:]
    assert ids(guarded.ask("?tool=Kit.Stay")) == everyone[-1:]
    assert ids(guarded.ask("?tool=Kit.None")) == []
    first = guarded.ask("?limit=2")
    assert ids(first) == everyone[:2]
    assert ids(guarded.ask(f"?limit=2&cursor={first[1]['cursor']}")) == everyone[2:4]


def test_a_call_is_shown_with_whose_it_is(guarded: Operated) -> None:
    status, call = guarded.ask("/of%20ada")
    assert status == 200
    assert (call["caller"], call["userId"], call["value"]) == ("ada", "u-1", "of ada")
    assert not {"tenant", "losses", "holder"} & call.keys()
    assert guarded.ask("/of%2Fbob")[1]["caller"] == "bob"
    assert guarded.ask("/lost")[1]["losses"] == 1


def test_what_is_wrong_with_a_question_is_said(guarded: Operated) -> None:
    for question in ("?state=NEVER", "?limit=0", "?cursor=x", "/lost?wait=-1"):
        assert guarded.ask(question)[0] == 422
    assert guarded.ask("/nothing") == (404, {"message": "There is no such call"})
    assert guarded.ask("/of%20ada?caller=bob") == (404, {"message": "There is no such call"})


def test_an_id_of_several_callers_is_ambiguous(guarded: Operated) -> None:
    several = {
        "message": "Several callers have a call of this id: ada, bob; say whose with --caller",
        "reason": "ambiguous",
    }
    assert guarded.ask("/shared") == (409, several)
    assert guarded.ask("/shared/cancel", "POST") == (409, several)
    assert guarded.ask("/shared/resolve", "POST", {"rerun": True}) == (409, several)
    for name in ("ada", "bob"):
        assert guarded.ask(f"/shared?caller={name}")[1]["caller"] == name


def test_a_call_that_has_an_outcome_is_not_settled(guarded: Operated) -> None:
    status, body = guarded.ask("/of%20ada/resolve", "POST", {"done": 1})
    assert (status, body["reason"]) == (409, "COMPLETE")
    assert body["message"].startswith("The call is COMPLETE (success); ")


@pytest.mark.parametrize(
    "body",
    [{}, {"done": 1, "rerun": True}, {"rerun": False}, {"rerun": 1}, {"failed": 5}, {"rerun": True, "more": 1}, [], 5],
    ids=str,
)
def test_a_settlement_that_is_none_changes_nothing(guarded: Operated, body: Any) -> None:
    status, answer = guarded.ask("/lost/resolve", "POST", body)
    assert (status, answer["message"]) == (422, "Some input parameters are invalid")
    assert guarded.ask("/lost")[1]["code"] == "outcome_unknown"


def test_a_settlement_that_is_no_json_changes_nothing(guarded: Operated) -> None:
    assert guarded.ask("/lost/resolve", "POST", b'{"done": ')[0] == 400
    assert guarded.ask("/lost")[1]["code"] == "outcome_unknown"


def test_a_running_call_has_a_holder_and_is_waited_for_and_cancelled(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with yard.serving(**CALLERS) as served, yard.calling(served, "runs", key=BOB):
        operated = Operated(yard, served)
        call = operated.ask("/runs?wait=0.1")[1]
        assert (call["state"], call["caller"]) == ("PROCESSING", "bob")
        assert call["holder"]
        cancelled = operated.ask("/runs/cancel", "POST")
        assert (cancelled[0], cancelled[1]["code"]) == (200, "cancelled")
        assert operated.ask("/runs/cancel", "POST") == cancelled
        yard.let_go()
        assert operated.ask("/runs") == cancelled


def test_a_call_is_waited_for_until_it_ends(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    with yard.serving() as served, yard.calling(served, "runs"):
        letting_go = threading.Timer(0.5, yard.let_go)
        letting_go.start()
        before = time.monotonic()
        call = Operated(yard, served).ask("/runs?wait=20")[1]
        assert (call["state"], call["value"]) == ("COMPLETE", "RUNS")
        assert 0.3 < time.monotonic() - before < 15


def test_callers_of_several_tenants_are_told_apart(tmp_path: Path) -> None:
    asyncio.run(of_several_tenants(tmp_path / "ledger.db"))


async def of_several_tenants(path: Path) -> None:
    store = SqliteStore(str(path), "node")
    await store.open()
    try:
        for tenant, subject in (("default", "ada"), ("other", "ada"), ("other", "bob")):
            run = Run(TOOL, "c", Caller(tenant, subject), {}, QuietChannel())
            await store.record(
                [(CallTool("Kit.Quick", {}, wire="oxp", family="oxp", input_json=b"{}"), run, Outcome("c", 1.0))] * 60
            )
        admin = CallAdmin(store)
        with pytest.raises(Refused, match="id: ada, other/ada, other/bob; say whose"):
            await admin.show(WhichCall("c"))
        with pytest.raises(Refused, match="id: ada, other/ada; say whose"):
            await admin.show(WhichCall("c", "ada"))
        assert (await admin.show(WhichCall("c", "other/ada")))[0].key.tenant == "other"
        assert (await admin.show(WhichCall("c", "bob")))[0].seq == 180, "the newest"
    finally:
        await store.close()
