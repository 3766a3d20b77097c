"""The operator's verbs: through the server that has the ledger, and on a ledger that nobody has."""

import asyncio
import fcntl
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client, ToolError
from toolyard.lazy import load
from toolyard.store.sqlite.store import SqliteStore

from ..conformance.serving import environment
from .operated import ADA, BOB, CALLERS, Yard, until, yard
from .processes import DEADLINE_S, Served, command, serving, toolyard

__all__ = ["yard"]

UNKNOWN = ("ERROR", "outcome_unknown")


def retried(served: Served, call_id: str) -> Any:
    """What a client is told that makes the same call again."""
    with Client(served.address, retries=0) as client:
        return client.call("Kit.Stay", {"text": call_id}, call_id=call_id)


# --- a call whose outcome nobody knows -----------------------------------------------------------


def test_a_lost_call_is_run_once_more(yard: Yard) -> None:
    yard.lose("pay-7")
    with yard.serving() as served:
        (call,) = yard.json("calls", "--json")
        assert (call["state"], call["code"], call["losses"]) == (*UNKNOWN, 1)
        yard.let_go()
        rerun = yard.toolyard("resolve", "pay-7", "--rerun")
        assert (rerun.code, rerun.err) == (0, "")
        assert rerun.out.startswith("pay-7  PENDING  Kit.Stay@1.0.0  local  1  ")
        call = yard.json("show", "pay-7", "--wait", "25")
        assert (call["state"], call["attempt"], call["value"]) == ("COMPLETE", 2, "PAY-7")
        assert retried(served, "pay-7") == "PAY-7"
    assert yard.marks() == ["pay-7", "pay-7"]


def test_a_lost_call_was_done_after_all(yard: Yard) -> None:
    yard.lose("pay-7")
    with yard.serving() as served:
        done = yard.toolyard("resolve", "pay-7", "--done", '{"x": 1}', "--json")
        assert (done.code, json.loads(done.out)["value"]) == (0, {"x": 1})
        assert retried(served, "pay-7") == {"x": 1}
    assert yard.marks() == ["pay-7"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--failed", "The bank refused"], "The bank refused"), (["--failed"], "The tool failed, as was found out later")],
)
def test_a_lost_call_had_failed(yard: Yard, arguments: list[str], message: str) -> None:
    yard.lose("pay-7")
    with yard.serving() as served:
        assert yard.toolyard("resolve", "pay-7", *arguments).out.startswith("pay-7  ERROR  tool_failed  ")
        for _ in range(2):
            with pytest.raises(ToolError, match=message) as failed:
                retried(served, "pay-7")
            assert failed.value.can_retry is False
    assert yard.marks() == ["pay-7"]


def test_who_waits_for_a_lost_call_hears_how_it_was_settled(yard: Yard) -> None:
    yard.lose("pay-7")
    with yard.serving() as served:
        yard.toolyard("resolve", "pay-7", "--rerun")
        until(lambda: len(yard.marks()) == 2)
        heard: list[Any] = []
        waiting = threading.Thread(target=lambda: heard.append(retried(served, "pay-7")))
        waiting.start()
        yard.let_go()
        waiting.join()
    assert heard == ["PAY-7"]


def test_a_call_whose_secrets_are_gone_is_not_run_without_them(yard: Yard) -> None:
    yard.lose("pay-7", "Kit.Needy")
    with yard.serving():
        assert yard.toolyard("resolve", "pay-7", "--rerun").code == 0
        until(lambda: yard.json("show", "pay-7")["state"] == "ERROR")
        call = yard.json("show", "pay-7")
    assert (call["state"], call["code"]) == UNKNOWN
    assert "cannot be run again" in call["error"]["message"]
    assert yard.marks() == ["pay-7"]


def test_a_call_is_run_again_with_secrets_that_are_kept(yard: Yard) -> None:
    yard.lose("pay-7", "Kit.Needy")
    with yard.serving():
        yard.let_go()
        assert yard.toolyard("secrets", "set", "KEY", "--from-env", "VALUE", VALUE="canary-kept").code == 0
        assert yard.toolyard("resolve", "pay-7", "--rerun").code == 0
        until(lambda: yard.json("show", "pay-7")["state"] == "COMPLETE")
    assert yard.marks() == ["pay-7", "pay-7"]


def test_only_a_call_whose_outcome_is_not_known_is_settled(yard: Yard) -> None:
    with yard.serving() as served, yard.calling(served, "runs"):
        with Client(served.address) as client:
            client.call("Kit.Quick", {"text": "a"}, call_id="done")
        done = yard.toolyard("resolve", "done", "--failed")
        runs = yard.toolyard("resolve", "runs", "--rerun")
        nothing = yard.toolyard("resolve", "nothing", "--rerun")
        assert yard.json("show", "done")["value"] == "a"
        yard.let_go()
    sentence = "only one that ended as outcome_unknown can be settled"
    assert (done.code, done.out, done.err) == (1, "", f"The call is COMPLETE (success); {sentence}\n")
    assert (runs.code, runs.out, runs.err) == (1, "", f"The call is PROCESSING; {sentence}\n")
    assert (nothing.code, nothing.out, nothing.err) == (1, "", "There is no such call\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say how the call is settled"),
        (["--rerun", "--failed"], "say how the call is settled"),
        (["--done", "1", "--rerun"], "say how the call is settled"),
        (["--done", "{1}"], "--done is not JSON: "),
        (["--done", "fine"], "--done is not JSON: "),
        (["why", "--rerun"], "'why' is too much; a message goes with --failed"),
        (
            ["--rerun", "--server", "http://127.0.0.1:9"],
            "http://127.0.0.1:9 wants to know who operates it: set TOOLYARD_OPER",
        ),
        (["--rerun"], "there is no ledger here; a call is settled in the ledger: "),
        (["--rerun", "--store", "sqlite:none.db"], "there is no ledger at sqlite:none.db"),
        (["--rerun", "--store", "none"], "--store must be sqlite:FILE or postgresql://USER@HOST/DATABASE, got 'none'"),
    ],
)
def test_what_cannot_be_settled_so_ends_with_2(
    here: Any, arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = here("resolve", "pay-7", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {sentence}")
    assert list(tmp_path.iterdir()) == []


def test_a_server_in_the_environment_is_not_a_ledger(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_SERVER", "http://127.0.0.1:9")
    ended = here("resolve", "pay-7", "--rerun")
    assert (ended.code, ended.out) == (2, "")
    assert "(not with TOOLYARD_SERVER, which is http://127.0.0.1:9)" in ended.err


# --- a ledger that nobody has --------------------------------------------------------------------


def test_without_a_server_a_call_is_settled_in_the_file(yard: Yard) -> None:
    yard.lose_for_good("pay-7")
    assert not yard.admin.exists()
    assert yard.toolyard("resolve", "pay-7", "--done", '"paid"').out.startswith("pay-7  COMPLETE  success  ")
    with yard.serving() as served:
        assert retried(served, "pay-7") == "paid"
    assert yard.marks() == ["pay-7"]


def test_without_a_server_a_call_runs_once_more_when_there_is_one(yard: Yard) -> None:
    yard.lose_for_good("pay-7")
    yard.let_go()
    assert yard.toolyard("resolve", "pay-7", "--rerun").code == 0
    assert yard.json("show", "pay-7", "--wait", "60")["state"] == "PENDING", "nobody is there to be waited for"
    with yard.serving() as served:
        assert served.request("GET", "/v1/calls/pay-7?wait=20")["value"] == "PAY-7"


def test_without_a_server_a_call_is_cancelled_in_the_file(yard: Yard) -> None:
    yard.lose("pay-7")
    assert yard.toolyard("cancel", "pay-7").out.startswith("pay-7  ERROR  cancelled  ")
    with yard.serving() as served, pytest.raises(ToolError, match="The call was cancelled"):
        retried(served, "pay-7")


def test_what_a_killed_server_left_behind_is_ignored(yard: Yard) -> None:
    yard.lose("pay-7")
    assert yard.admin.exists()
    (call,) = yard.json("calls", "--json")
    assert (call["callId"], call["state"]) == ("pay-7", "PROCESSING")


def test_another_server_at_the_socket_is_not_taken_for_the_one_that_was_killed(
    yard: Yard, server: Served, folder: Path
) -> None:
    yard.lose("pay-7")
    left = json.loads(yard.admin.read_text())
    another = json.loads((folder / "toolyard.db.admin").read_text())["socket"]
    yard.admin.write_text(json.dumps({**left, "socket": another}))
    assert [call["callId"] for call in yard.json("calls", "--json")] == ["pay-7"]
    yard.admin.write_text('{"address": ')
    assert [call["callId"] for call in yard.json("calls", "--json")] == ["pay-7"]


def test_both_ways_print_the_same(yard: Yard) -> None:
    yard.lose_for_good("lost")
    with yard.serving() as served:
        with Client(served.address, retries=0) as client:
            client.call("Kit.Quick", {"text": "ä"}, call_id="quick/1 ", user_id="u-1")
            with pytest.raises(ToolError):
                client.call("Kit.Refuse", call_id="refused")
        served.request("GET", "/v1/calls")
        verbs = [
            ["calls", "--json"], ["calls", "--json", "--state", "error", "--limit", "1"], ["show", "quick/1 "],
            ["show", "lost"], ["resolve", "refused", "--rerun"], ["show", "nothing"], ["show", "lost", "--caller", "x"],
            ["calls", "--json", "--tool", "Kit.Quick"],
        ]  # fmt: skip
        asked = [yard.toolyard(*verb) for verb in verbs]
        served.end()
    assert asked == [yard.toolyard(*verb) for verb in verbs]
    assert [ended.code for ended in asked] == [0, 0, 0, 0, 1, 1, 1, 0]
    assert json.loads(asked[2].out)["userId"] == "u-1"


def test_a_ledger_that_somebody_has_and_who_cannot_be_asked_is_told_of(yard: Yard) -> None:
    with yard.serving():
        yard.admin.unlink()
        ended = yard.toolyard("calls")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("toolyard: toolyard.db: another process has this ledger and cannot be asked about it: ")
    assert len(ended.err.splitlines()) == 1


def test_a_server_gets_a_ledger_that_a_verb_has_for_a_moment(tmp_path: Path) -> None:
    async def start() -> None:
        with (tmp_path / "a.db.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            asyncio.get_running_loop().call_later(0.2, lock.close)
            store = SqliteStore(str(tmp_path / "a.db"), "node")
            await store.open()
            assert lock.closed
            await store.close()

    asyncio.run(start())


def test_a_ledger_in_postgres_is_opened_beside_its_servers(yard: Yard, postgres_url: str) -> None:
    with yard.serving(TOOLYARD_STORE=postgres_url) as served, yard.calling(served, "pay-7"):
        assert not yard.admin.exists()
        (call,) = yard.json("calls", "--json", TOOLYARD_STORE=postgres_url)
        assert (call["callId"], call["state"], call["caller"]) == ("pay-7", "PROCESSING", "local")
        cancelled = yard.toolyard("cancel", "pay-7", "--store", postgres_url)
        assert (cancelled.code, cancelled.err) == (0, "")
        assert cancelled.out.startswith("pay-7  ERROR  cancelled  Kit.Stay@1.0.0  local  1  ")
        with pytest.raises(ToolError, match="The call was cancelled"):
            retried(served, "pay-7")
        yard.let_go()


# --- whose calls ---------------------------------------------------------------------------------


def test_an_operator_sees_the_calls_of_all_callers_and_a_caller_its_own(yard: Yard) -> None:
    with yard.serving(**CALLERS) as served:
        for name, key in (("ada", ADA), ("bob", BOB)):
            with Client(served.address, key=key) as client:
                client.call("Kit.Quick", {"text": name}, call_id=f"of-{name}")
        shown = yard.toolyard("calls", TOOLYARD_KEY=ADA)
        assert (shown.code, shown.err) == (0, "")
        heading, bob, ada = (re.split(r" {2,}", line) for line in shown.out.splitlines())
        assert heading == ["CALL", "STATE", "CODE", "TOOL", "CALLER", "ATTEMPT", "AGE"]
        assert bob[:6] == ["of-bob", "COMPLETE", "success", "Kit.Quick@1.0.0", "bob", "1"]
        assert ada[:6] == ["of-ada", "COMPLETE", "success", "Kit.Quick@1.0.0", "ada", "1"]
        assert re.fullmatch(r"\d+[sm]", ada[6])
        own = yard.toolyard("calls", TOOLYARD_SERVER=served.address, TOOLYARD_KEY=ADA).out.splitlines()
        assert [re.split(r" {2,}", line)[:6] for line in own] == [
            ["CALL", "STATE", "CODE", "TOOL", "ATTEMPT", "AGE"],
            ["of-ada", "COMPLETE", "success", "Kit.Quick@1.0.0", "1", own[1].split()[-1]],
        ]
        strange = yard.toolyard("show", "of-bob", "--server", served.address, "--key", ADA)
        assert (strange.code, strange.err) == (1, "There is no such call\n")
        assert yard.json("show", "of-bob")["caller"] == "bob"
        over = yard.json("show", "of-bob", "--store", "sqlite:toolyard.db", TOOLYARD_SERVER=served.address)
        assert over["caller"] == "bob", "a flag counts for more than the environment"


def test_an_id_of_several_callers_needs_the_caller(yard: Yard) -> None:
    with yard.serving(**CALLERS) as served, yard.calling(served, "shared", key=ADA):
        with Client(served.address, key=BOB) as client:
            client.call("Kit.Quick", {"text": "b"}, call_id="shared")
        for verb in (["show", "shared"], ["cancel", "shared"], ["resolve", "shared", "--rerun"]):
            ended = yard.toolyard(*verb)
            assert (ended.code, ended.out) == (1, "")
            assert ended.err == "Several callers have a call of this id: ada, bob; say whose with --caller\n"
        assert yard.json("show", "shared", "--caller", "bob")["value"] == "b"
        assert yard.json("show", "shared", "--caller", "ada")["state"] == "PROCESSING"
        assert yard.toolyard("show", "shared", "--caller", "eve").err == "There is no such call\n"
        assert yard.toolyard("cancel", "shared", "--caller", "ada").code == 0
        assert yard.json("show", "shared", "--caller", "ada")["code"] == "cancelled"
        assert yard.json("show", "shared", "--caller", "bob")["code"] == "success"
        yard.let_go()


def test_no_caller_can_be_taken_for_another(yard: Yard) -> None:
    """A subject with a slash in it reads as nobody of another tenant."""
    secret = "a-shared-secret-of-some-length!!"
    with yard.serving(TOOLYARD_JWT_SECRET=secret) as served:
        for tenant, subject in (("acme", "ada"), ("default", "acme/ada")):
            said = {"sub": subject, "tenant": tenant, "exp": int(time.time()) + 600}
            with Client(served.address, key=load("signed_token")(said, secret)) as client:
                client.call("Kit.Quick", {"text": tenant}, call_id="same")
        assert [re.split(r" {2,}", line)[4] for line in yard.toolyard("calls").out.splitlines()[1:]] == [
            "acme%2Fada", "acme/ada",
        ]  # fmt: skip
        ambiguous = "Several callers have a call of this id: acme%2Fada, acme/ada; say whose with --caller\n"
        assert yard.toolyard("show", "same").err == ambiguous
        assert yard.json("show", "same", "--caller", "acme/ada")["value"] == "acme"
        assert yard.json("show", "same", "--caller", "acme%2Fada")["value"] == "default"
        until(lambda: "acme/ada" in yard.toolyard("audit", "tail").out)
        tail = yard.toolyard("audit", "tail").out
        assert ("  acme/ada  " in tail, "  acme%2Fada  " in tail) == (True, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["calls", "--server", "http://127.0.0.1:9", "--store", "sqlite:a.db"], "--server and --store are two places"),
        (["show", "a", "--server", "http://127.0.0.1:9", "--caller", "ada"], "--caller is for operators"),
        (["calls", "--store", "sqlite:none.db"], "there is no ledger at sqlite:none.db"),
        (["cancel", "a", "--server", "localhost"], "--server must be an address such as "),
    ],
)
def test_what_cannot_be_looked_at_so_ends_with_2(
    here: Any, arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = here(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {sentence}")


@pytest.mark.parametrize("arguments", [["--state", "NEVER"], ["--limit", "0"], ["--limit", "201"]])
def test_what_cannot_be_listed_ends_with_2(here: Any, arguments: list[str]) -> None:
    ended = here("calls", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {arguments[0]} must be ")


def test_where_there_is_no_ledger_the_usual_server_is_asked(
    here: Any, server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_PORT", server.address.rpartition(":")[2])
    server.request("POST", "/tools/call", {"tool_id": "Kit.Nothing", "call_id": "usual", "input": {}})
    assert json.loads(here("show", "usual").out)["state"] == "COMPLETE"
    assert "usual" in here("calls").out
    assert here("cancel", "usual").code == 1
    assert list(tmp_path.iterdir()) == [], "looking makes no ledger"


def test_a_proxy_never_sees_the_operators_token(yard: Yard) -> None:
    nobody = "http://127.0.0.1:9"
    with yard.serving():
        assert yard.json("calls", "--json", HTTP_PROXY=nobody, http_proxy=nobody, ALL_PROXY=nobody) == []


# --- cancel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_caller", [True, False])
def test_a_running_call_is_cancelled_once(yard: Yard, as_caller: bool) -> None:
    with yard.serving() as served, yard.calling(served, "pay-7"):
        who = {"TOOLYARD_SERVER": served.address} if as_caller else {}
        first = yard.toolyard("cancel", "pay-7", **who)
        assert (first.code, first.err) == (0, "")
        assert first.out.startswith("pay-7  ERROR  cancelled  Kit.Stay@1.0.0  ")
        with pytest.raises(ToolError, match="The call was cancelled"):
            retried(served, "pay-7")
        with Client(served.address) as client:
            client.call("Kit.Quick", {"text": "a"}, call_id="done")
        late = yard.toolyard("cancel", "done", "--json", **who)
        assert (late.code, late.err) == (1, "The call had ended before\n")
        assert json.loads(late.out)["value"] == "a"
        yard.let_go()


# --- watching and waiting ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["as operator", "as caller", "without a server"])
def test_watching_ends_with_ctrl_c(yard: Yard, how: str) -> None:
    with yard.serving() as served:
        with Client(served.address) as client:
            client.call("Kit.Quick", {"text": "a"}, call_id="pay-7")
        if how == "without a server":
            served.end()
        variables = environment("open") | {"PYTHONUNBUFFERED": "1"}
        if how == "as caller":
            variables["TOOLYARD_SERVER"] = served.address
        watching = subprocess.Popen(
            command("calls", "--watch"), cwd=yard.folder, env=variables, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(6)]
        os.kill(watching.pid, signal.SIGINT)
        _, err = watching.communicate(timeout=DEADLINE_S)
    assert (watching.returncode, err) == (0, "")
    assert [line.split()[:1] for line in lines] == [["CALL"], ["pay-7"], []] * 2


def test_a_call_is_waited_for_longer_than_the_server_does(yard: Yard) -> None:
    with yard.serving(TOOLYARD_SYNC_WAIT_S="0.2") as served:
        who = {"TOOLYARD_SERVER": served.address}
        told = yard.toolyard("call", "Kit.Later", "seconds=20", "--call-id", "told", **who)
        assert (told.code, told.out) == (1, "")
        assert told.err.endswith("The tool is still running\n")
        waited = yard.toolyard("call", "Kit.Later", "seconds=4", "--wait", "--json", **who)
        assert (waited.code, waited.err) == (0, "")
        body = json.loads(waited.out)
        assert (body["success"], body["value"]) == (True, 4)
        assert body["duration"] >= 4000
        assert yard.json("calls", "--json", "--state", "COMPLETE")[0]["callId"] == body["call_id"]
        yard.toolyard("cancel", "told")


def test_who_does_not_wait_is_told_where_to_look(yard: Yard) -> None:
    with yard.serving() as served:
        calling = subprocess.Popen(
            command("call", "Kit.Stay", "text=a", "--wait", "--server", served.address), cwd=yard.folder,
            env=environment("open"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(yard.marks)
        os.kill(calling.pid, signal.SIGINT)
        out, err = calling.communicate(timeout=DEADLINE_S)
        found = re.fullmatch(r"\nNot waited for; look for it with: toolyard show (\S+)\n", err)
        assert (calling.returncode, out) == (130, "")
        assert found is not None, err
        yard.let_go()
        assert yard.json("show", found[1], "--wait", "20")["value"] == "A"


def test_a_file_is_waited_for_too(yard: Yard) -> None:
    assert toolyard("call", "Kit.Quick", "text=a", "--wait", "--file", "tools.py", folder=yard.folder).out == "a\n"


def test_a_reloaded_server_is_found_again(yard: Yard) -> None:
    with serving("tools.py", "--reload", folder=yard.folder) as served:
        token = json.loads(yard.admin.read_text())["token"]
        (yard.folder / "tools.py").touch()
        served.hear("Stop with Ctrl-C.")
        until(lambda: yard.admin.exists() and json.loads(yard.admin.read_text())["token"] != token)
        assert yard.json("calls", "--json") == []
