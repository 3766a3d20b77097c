"""`toolyard audit`: through the server that has the ledger, and on a ledger that nobody has."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import apsw
import pytest

from ..conformance.serving import environment
from ..postgres import execute, fetch
from .operated import Yard, until, yard
from .processes import Ended, command, serving, toolyard

__all__ = ["yard"]

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.*)")


def shown(ended: Ended) -> list[str]:
    assert (ended.code, ended.err) == (0, "")
    lines = [LINE.fullmatch(line) for line in ended.out.splitlines()]
    return [line[1] for line in lines if line is not None]


def lines(ended: Ended) -> list[Any]:
    assert (ended.code, ended.err) == (0, "")
    return [json.loads(line) for line in ended.out.splitlines()]


def run_once(yard: Yard, **settings: str) -> None:
    with yard.serving(**settings) as served:
        assert served.end() == 0


def tamper(yard: Yard, statement: str) -> None:
    with apsw.Connection(str(yard.ledger)) as connection:
        connection.execute(f"DROP TRIGGER IF EXISTS audit_stays; DROP TRIGGER IF EXISTS audit_is_kept; {statement}")


def test_the_log_is_shown_while_the_server_runs_and_after_it(yard: Yard) -> None:
    run_once(yard)
    with yard.serving() as served:
        until(lambda: shown(yard.toolyard("audit", "tail"))[2:] == ["start  continued"])
        assert shown(yard.toolyard("audit", "tail", "-n", "1")) == ["start  continued"]
        assert yard.toolyard("audit", "verify") == Ended(0, "main: whole, 3 entries up to block 3\n", "")
        assert served.end() == 0
    expected = ["start  began", "stop  closed", "start  continued", "stop  closed"]
    assert shown(yard.toolyard("audit", "tail")) == expected
    assert shown(yard.toolyard("audit", "tail", "-n", "2")) == expected[2:]
    newest = lines(yard.toolyard("audit", "tail", "-n", "1", "--json"))
    assert newest == [{"chain": "main", "block": 4, "at": newest[0]["at"], "kind": "stop", "code": "closed"}]


def test_a_line_says_for_whom_a_program_acts(yard: Yard) -> None:
    with yard.serving() as served:
        about = {"tool_id": "Nothing.There", "context": {"user_id": "u-7"}}
        served.request("POST", "/tools/call", about)
        until(lambda: any("refused" in line for line in shown(yard.toolyard("audit", "tail"))))
        (line,) = [line for line in shown(yard.toolyard("audit", "tail")) if "refused" in line]
        assert line.startswith("refused  local for u-7  127.0.0.1  Nothing.There  ")


def test_what_comes_is_followed(yard: Yard) -> None:
    with yard.serving():
        until(lambda: shown(yard.toolyard("audit", "tail")))
        arguments = command("audit", "tail", "--follow")
        with subprocess.Popen(
            arguments, cwd=yard.folder, env=environment("open"), stdout=subprocess.PIPE, text=True
        ) as following:
            assert following.stdout is not None
            assert following.stdout.readline().endswith("start  began\n")
            following.terminate()


def test_what_a_verb_does_without_a_server_is_there(yard: Yard) -> None:
    assert yard.toolyard("keys", "new", "laptop").code == 0
    assert yard.toolyard("keys", "list").code == 0
    assert yard.toolyard("keys", "revoke", "laptop").code == 0
    expected = ["admin  POST /v1/admin/keys", "admin  POST /v1/admin/keys/laptop/revoke"]
    assert shown(yard.toolyard("audit", "tail")) == expected
    assert yard.toolyard("audit", "verify").code == 0


def test_a_file_without_heads_proves_nothing(yard: Yard) -> None:
    run_once(yard)
    (yard.folder / "heads").write_text("", encoding="utf-8")
    ended = yard.toolyard("audit", "verify", "--heads", "heads")
    assert (ended.code, "there are none in it" in ended.err) == (2, True)


def test_a_key_file_that_is_gone_is_not_made_again(yard: Yard) -> None:
    run_once(yard)
    key = yard.folder / "toolyard.key"
    key.rename(yard.folder / "old")
    for arguments in (["serve", "--port", "0"], ["audit", "verify"], ["keys", "new", "a"]):
        ended = yard.toolyard(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("toolyard: toolyard.key: the key file is missing")
        assert not key.exists()
    assert yard.toolyard("calls").code == 0, "who needs no key is not refused"
    (yard.folder / "old").rename(key)
    assert yard.toolyard("audit", "verify").code == 0


def test_a_key_that_fits_nothing_is_refused_and_one_behind_it_counts(yard: Yard) -> None:
    run_once(yard)
    key = yard.folder / "toolyard.key"
    old = key.read_text()
    key.write_text("01" * 32 + "\n")
    for arguments in (["serve", "--port", "0"], ["audit", "verify"]):
        ended = yard.toolyard(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("toolyard: toolyard.key: no key in this file fits this ledger")
    assert "no key in secret_key fits" in yard.toolyard("audit", "verify", TOOLYARD_SECRET_KEY="02" * 32).err
    key.write_text("01" * 32 + "\n" + old)
    run_once(yard)
    assert yard.toolyard("audit", "verify").code == 0


def test_an_operator_can_go_on_with_a_new_key(yard: Yard) -> None:
    assert yard.toolyard("secrets", "set", "KEY", "--from-env", "VALUE", VALUE="canary").code == 0
    key = yard.folder / "toolyard.key"
    old = key.read_text()
    assert "fits this ledger" in yard.toolyard("secrets", "new-key").err
    key.unlink()
    assert "sealed with another key" in yard.toolyard("secrets", "list").out
    assert not key.exists()
    assert yard.toolyard("secrets", "new-key").out == "The key in toolyard.key is this ledger's key from now on\n"
    run_once(yard)
    assert "sealed with another key" in yard.toolyard("secrets", "list").out
    assert yard.toolyard("audit", "verify").code == 1
    key.write_text(key.read_text() + old)
    assert yard.toolyard("audit", "verify").code == 0
    assert "sealed with another key" not in yard.toolyard("secrets", "list").out


def test_a_key_that_is_none_is_told_of(yard: Yard) -> None:
    run_once(yard)
    ended = yard.toolyard("audit", "verify", TOOLYARD_SECRET_KEY="zz")
    assert (ended.code, ended.err) == (2, "toolyard: secret_key must be 64 hexadecimal digits, or several of that\n")


def test_entries_are_exported_by_time(yard: Yard) -> None:
    run_once(yard)
    exported = lines(yard.toolyard("audit", "export", "--since", "1h"))
    assert [(entry["chain"], entry["block"], entry["code"]) for entry in exported] == [
        ("main", 1, "began"),
        ("main", 2, "closed"),
    ]
    assert lines(yard.toolyard("audit", "export")) == exported
    assert lines(yard.toolyard("audit", "export", "--since", "1h", "--until", "10m")) == []


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("DELETE FROM audit WHERE number = 2", "chain main, block 2: it is missing: block 3 comes after block 1"),
        ("DELETE FROM audit WHERE number = 4", "chain main, block 4: it is missing, and so is what follows up to"),
        ("UPDATE audit SET entries = x'7b7d' WHERE number = 3", "chain main, block 3: it or its place was changed"),
        ("DELETE FROM audit_heads", "chain main, block 4: the chain has no head"),
    ],
)
def test_what_was_done_to_it_is_named(yard: Yard, statement: str, sentence: str) -> None:
    run_once(yard)
    run_once(yard)
    tamper(yard, statement)
    ended = yard.toolyard("audit", "verify")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(sentence)


def test_a_server_that_goes_on_does_not_cover_it_up(yard: Yard) -> None:
    run_once(yard)
    tamper(yard, "DELETE FROM audit WHERE number = 2")
    with yard.serving():
        ended = yard.toolyard("audit", "verify")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("chain main, block 2: it is missing")


def test_a_log_that_somebody_spoilt_can_still_be_read(yard: Yard) -> None:
    run_once(yard)
    tamper(yard, "UPDATE audit SET format = 0, entries = x'ff0a7b' WHERE number = 1")
    entries = lines(yard.toolyard("audit", "tail", "--json"))
    assert [entry["kind"] for entry in entries].count("unreadable") == 2


def test_an_old_copy_is_found_out_by_exported_heads(yard: Yard) -> None:
    run_once(yard)
    old = yard.ledger.read_bytes()
    run_once(yard)
    heads = yard.toolyard("audit", "export", "--heads")
    (yard.folder / "heads").write_text(heads.out)
    assert yard.toolyard("audit", "verify", "--heads", "heads").code == 0
    for file in yard.folder.glob("toolyard.db*"):
        file.unlink()
    yard.ledger.write_bytes(old)
    assert yard.toolyard("audit", "verify").code == 0, "by itself it is whole"
    ended = yard.toolyard("audit", "verify", "--heads", "heads")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("chain main, block 4: it is gone: it was there when its head was exported")


@pytest.mark.parametrize("text", ["nothing", "{}", '{"chain":"main","number":1,"mac":"xy","count":1,"at":1,"seal":""}'])
def test_a_file_that_has_no_heads_is_refused(yard: Yard, text: str) -> None:
    run_once(yard)
    (yard.folder / "heads").write_text(text)
    ended = yard.toolyard("audit", "verify", "--heads", "heads")
    assert ended.code == 2
    assert "these are not heads that were exported" in ended.err
    assert "the heads cannot be read" in yard.toolyard("audit", "verify", "--heads", "none").err


def test_without_an_audit_log_there_is_nothing_to_check(yard: Yard) -> None:
    run_once(yard, TOOLYARD_AUDIT="off")
    assert yard.toolyard("audit", "verify") == Ended(0, "The audit log is empty\n", "")
    assert yard.toolyard("audit", "tail").out == ""


def test_without_a_ledger_it_says_so(tmp_path: Path) -> None:
    ended = toolyard("audit", "tail", folder=tmp_path)
    assert ended.code == 2
    assert "there is no ledger here" in ended.err


def test_nodes_that_share_a_ledger_write_a_chain_each(yard: Yard, postgres_url: str) -> None:
    import asyncio

    variables = {"TOOLYARD_STORE": postgres_url}
    with serving("tools.py", folder=yard.folder, variables=variables) as one:
        run_once(yard, **variables)
        verified = yard.toolyard("audit", "verify", **variables)
        assert (verified.code, verified.err) == (0, "")
        assert len(verified.out.splitlines()) == 2
        assert one.end() == 0
    said = shown(yard.toolyard("audit", "tail", **variables))
    assert sorted(said) == ["start  began", "start  began", "stop  closed", "stop  closed"]
    assert len(lines(yard.toolyard("audit", "export", **variables))) == 4
    (chain,) = asyncio.run(fetch(postgres_url, "SELECT min(chain) FROM audit"))[0]
    drop = "ALTER TABLE audit DISABLE TRIGGER audit_stays"
    asyncio.run(execute(postgres_url, drop, f"DELETE FROM audit WHERE chain = '{chain}' AND number = 2"))
    ended = yard.toolyard("audit", "verify", **variables)
    assert ended.code == 1
    assert ended.err.startswith(f"chain {chain}, block 2: it is missing")
    assert ended.out.endswith(": whole, 2 entries up to block 2\n"), "the other one"


def test_a_node_without_the_key_of_a_shared_ledger_does_not_start(yard: Yard, postgres_url: str) -> None:
    variables = {"TOOLYARD_STORE": postgres_url}
    assert yard.toolyard("keys", "new", "a", **variables).code == 0
    key = yard.folder / "toolyard.key"
    key.unlink()
    ended = yard.toolyard("serve", "--port", "0", **variables)
    assert (ended.code, "toolyard.key: the key file is missing" in ended.err, key.exists()) == (2, True, False)
    assert yard.toolyard("secrets", "new-key", **variables).code == 0
    assert yard.toolyard("keys", "new", "b", **variables).code == 0


def test_beside_a_server_a_new_key_is_refused_with_advice_that_helps(yard: Yard) -> None:
    with yard.serving():
        ended = yard.toolyard("secrets", "new-key")
    assert ended.code == 2
    assert "a server has this ledger; stop it, and then run this again" in ended.err
    assert "--store" not in ended.err
