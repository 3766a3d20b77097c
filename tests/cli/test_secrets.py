"""`toolyard secrets`: through the server that has the ledger, and on a ledger that nobody has."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.unpacked import everything_in

from ..conformance.serving import environment
from .operated import until
from .processes import DEADLINE_S, Ended, command, serving, toolyard

CANARY = "canary-0f3a9c"
TOOLS = '''
from toolyard import Context, Toolkit, secret

kit = Toolkit("Sms")


@kit.tool(requires=secret("KEY"))
def send(ctx: Context) -> int:
    """Sends."""
    return len(ctx.secret("KEY"))


@kit.tool(requires=secret("OTHER"))
def other() -> None:
    """Needs another."""
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


def secrets(folder: Path, *arguments: str, input: str = "", **variables: str) -> Ended:
    return toolyard("secrets", *arguments, folder=folder, variables=variables, input=input)


def rows(folder: Path) -> list[list[str]]:
    ended = secrets(folder, "list")
    assert (ended.code, ended.err) == (0, "")
    assert CANARY not in ended.out
    return [re.split(r"  +", line) for line in ended.out.splitlines()[1:]]


def audited(folder: Path) -> str:
    return toolyard("audit", "export", folder=folder).out


def test_a_secret_that_is_set_at_a_running_server_is_used_at_once(folder: Path) -> None:
    with serving("tools.py", folder=folder) as served:
        assert [row[:5] for row in rows(folder)] == [
            ["KEY", "Sms.Send", "-", "-", "unset"],
            ["OTHER", "Sms.Other", "-", "-", "unset"],
        ]
        refused = served.request("POST", "/tools/call", {"tool_id": "Sms.Send", "input": {}})
        assert "KEY" in str(refused)
        done = secrets(folder, "set", "KEY", "--tool", "Sms.*", input=f"{CANARY}\n")
        assert done == Ended(0, "KEY is set for tenant default\n", "It is given to Sms.Send\n")
        assert served.call("Sms.Send") == len(CANARY), "without the end of its line"
        ((name, tools, tenant, user, state, since), other) = rows(folder)
        assert (name, tools, tenant, user, state) == ("KEY", "Sms.*", "default", "-", "set")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", since)
        assert other[4] == "unset"
        assert secrets(folder, "remove", "KEY").out == "KEY is removed for tenant default\n"
        assert "KEY" in str(served.request("POST", "/tools/call", {"tool_id": "Sms.Send", "input": {}}))
        until(lambda: "DELETE /v1/admin/secrets/default/KEY" in audited(folder))  # it is written behind
        said = audited(folder)
        assert "PUT /v1/admin/secrets/default/KEY" in said
        assert CANARY not in said
        assert served.end() == 0
    assert not traces(folder)


def test_without_a_server_it_is_set_in_the_ledger_and_the_next_server_has_it(folder: Path) -> None:
    done = secrets(folder, "set", "KEY", "--from-env", "VALUE", VALUE=CANARY)
    assert done == Ended(0, "KEY is set for tenant default\n", "")
    assert secrets(folder, "set", "KEY", "--user", "ada", "--tenant", "acme", input="other").code == 0
    assert [row[:5] for row in rows(folder)] == [
        ["KEY", "-", "acme", "ada", "set"],
        ["KEY", "-", "default", "-", "set"],
    ]
    assert "PUT /v1/admin/secrets/acme/KEY/ada" in audited(folder)
    with serving("tools.py", folder=folder) as served:
        assert served.call("Sms.Send") == len(CANARY)
        assert served.end() == 0
    assert not traces(folder)


def test_at_a_prompt_it_is_not_shown(folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("secrets", "set", "KEY"),
        cwd=folder, env=environment("open"), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 1000)
    assert b"The value of KEY: " in shown
    os.write(ours, f"{CANARY}\n".encode())
    while b"is set" not in shown:
        shown += os.read(ours, 1000)
    assert process.wait(DEADLINE_S) == 0
    os.close(ours)
    assert CANARY.encode() not in shown


def test_who_ends_the_prompt_sets_nothing(folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("secrets", "set", "KEY"),
        cwd=folder, env=environment("open"), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 1000)
    os.write(ours, b"\x04")
    while b"not set" not in shown:
        shown += os.read(ours, 1000)
    assert process.wait(DEADLINE_S) == 2
    os.close(ours)
    assert b"toolyard: no value was typed; KEY is not set" in shown
    assert not (folder / "toolyard.db").exists()


def test_a_tool_that_may_not_have_it_is_told_of(folder: Path) -> None:
    with serving("tools.py", folder=folder):
        ended = secrets(folder, "set", "KEY", "--tool", "Mail.*", input="x")
        assert ended.err == "No tool that is served declares KEY and may have it\n"
        assert [row[:5] for row in rows(folder)][:2] == [
            ["KEY", "Mail.*", "default", "-", "set"],
            ["KEY", "Sms.Send", "-", "-", "unset"],
        ]


REFUSALS: dict[str, tuple[list[str], str]] = {
    "a value as an argument": (["set", "KEY", CANARY], "a value is no argument"),
    "no value": (["set", "KEY"], "the value must be a text that is not empty"),
    "a variable that is not there": (["set", "KEY", "--from-env", "NOPE"], "this variable is not set"),
    "a pattern": (["set", "KEY", "--tool", "!"], "--tool must be a tool's id"),
    "a name": (["set", ""], "NAME must be 1 to 128 characters"),
    "a user of everybody": (["set", "KEY", "--tenant", "*", "--user", "ada"], "--user is one of a tenant's"),
    "none there": (["remove", "KEY"], "there is no ledger here"),
    "a server elsewhere": (["list"], "not with TOOLYARD_SERVER"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_is_refused(case: str, folder: Path) -> None:
    arguments, sentence = REFUSALS[case]
    more = {"TOOLYARD_SERVER": "http://a.example"} if case == "a server elsewhere" else {}
    ended = secrets(folder, *arguments, **more)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("toolyard: ")
    assert sentence in ended.err
    assert CANARY not in ended.err
    assert not (folder / "toolyard.db").exists()


def test_one_that_is_not_there_cannot_be_removed(folder: Path) -> None:
    secrets(folder, "set", "KEY", input="x")
    ended = secrets(folder, "remove", "KEY", "--tenant", "acme")
    assert ended.code != 0
    assert "There is no secret KEY for tenant acme" in ended.err


def test_keys_are_changed_without_losing_anything(folder: Path) -> None:
    old, new = "01" * 32, "02" * 32
    secrets(folder, "set", "KEY", input=CANARY, TOOLYARD_SECRET_KEY=old)
    both = {"TOOLYARD_SECRET_KEY": f"{new},{old}"}
    assert secrets(folder, "rotate", **both).out == "Sealed anew: 1; with the first key already: 0\n"
    assert secrets(folder, "rotate", **both).out == "Sealed anew: 0; with the first key already: 1\n"
    with serving("tools.py", folder=folder, variables={"TOOLYARD_SECRET_KEY": new}) as served:
        assert served.call("Sms.Send") == len(CANARY)
    lost = secrets(folder, "rotate", TOOLYARD_SECRET_KEY=old)
    assert lost.code == 2
    assert "1 cannot be opened with any key" in lost.err


def test_help_says_how(folder: Path) -> None:
    shown = secrets(folder, "--help")
    assert shown.code == 0
    for verb in ("set", "list", "remove", "rotate"):
        assert verb in shown.out


def traces(folder: Path) -> list[Path]:
    """Files that have it in them."""
    return [path for path in folder.rglob("*") if path.is_file() and CANARY.encode() in everything_in(path)]
