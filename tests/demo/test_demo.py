"""The demo as people run it: by itself, with a person who takes part, and stopped in the middle."""

import re
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolyard import Client, MissingRequirements
from toolyard.demo.stage import _serving, stage_in
from toolyard.demo.visitor import Visitor
from toolyard.model.errors import SetupError

from .. import warm
from ..cli.processes import DEADLINE_S, Served, command, toolyard
from .processes import addresses, demo, is_open, left_behind, variables

STEPS = (
    "1. A tool that needs nothing",
    '     [\n       "Lima",\n       "Oslo"\n     ]\n',
    "2. A tool that needs a secret",
    "Weather_Now needs the secret WEATHER_KEY before it can be called",
    "       pass --secret WEATHER_KEY=…",
    "WEATHER_KEY is set for tenant default\n     It is given to Weather.Now\n",
    "4 degrees in Oslo, asked with the key [secret WEATHER_KEY]",
    "3. A tool that needs somebody's account",
    "Mail_Unread needs authorization at demo",
    "waiting for authorization: http://127.0.0.1:",
    "/authorize/",
    "Connected: ada@demo.example",
    '"The analytical engine",\n       "Tea on Thursday?"',
    "4. A tool that needs a yes",
    "     waiting for approval: http://127.0.0.1:",
    "/approvals/",
    "500 cents for order 7",
    "5. The audit log of all that",
    "refused  local  127.0.0.1  Weather.Now@1.0.0  there are no rules  MissingRequirements\n",
    "refused  local for you  127.0.0.1  Mail.Unread@1.0.0",
    "connection  local for you  connected demo\n",
    "approval  a person with its code  127.0.0.1  Payments.Refund@1.0.0  call ",
    " of default/local  approved\n",
    "call  local  127.0.0.1  Payments.Refund@1.0.0  there are no rules  success\n",
    "main: whole, 11 entries up to block ",
    "That was all.",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    return made


def in_order(text: str, parts: tuple[str, ...]) -> list[str]:
    """Those that do not come after the one before."""
    missing, at = [], 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            missing.append(part)
        at = max(at, found)
    return missing


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return warm.run(
        command("demo", *arguments), input="", timeout=2 * DEADLINE_S, cwd=folder.parent, env=variables(folder)
    )


def test_by_itself_it_shows_everything_twice_in_a_row_and_leaves_behind_what_is_to_be_kept(folder: Path) -> None:
    kept = folder / "kept"
    for options, left in (([], []), (["--keep", str(kept)], [str(kept)])):
        ended = run(folder, "--auto", *options)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert in_order(ended.stdout, STEPS) == [], ended.stdout
        assert [is_open(address) for address in addresses(ended.stdout)] == [False, False]
        assert left_behind(folder) == left
    assert {"tools.py", "toolyard.toml", "toolyard.db"} <= {path.name for path in kept.iterdir()}
    assert "main: whole" in toolyard("audit", "verify", folder=kept).out
    again = run(folder, "--auto", "--keep", str(kept))
    assert (again.returncode, again.stdout) == (2, "")
    assert "is there already; --keep wants a folder that is new or empty" in again.stderr


def test_a_person_denies_it_then_is_bob_and_says_yes_in_another_terminal(folder: Path) -> None:
    with demo(folder) as running:
        link, code = asked(running)
        with Denying("bob") as browser:
            browser.connect(link, code)
        running.hear("That came to nothing")
        link, code = asked(running)
        with Visitor("bob") as browser:
            browser.connect(link, code)
        running.hear("Connected: bob@demo.example")
        running.hear('"Your parcel is on its way"')
        approving = running.hear("toolyard approve")[-1]
        running.hear("Waiting for you")
        place, number = re.findall(r"cd (\S+) && toolyard approve (\d+)", approving)[0]
        assert toolyard("approve", number, folder=Path(place)).code == 0
        running.hear("500 cents for order 7")
        running.hear("That was all.")
        assert running.process.wait(DEADLINE_S) == 0
    assert left_behind(folder) == []


def test_a_no_is_told_and_the_demo_goes_on(folder: Path) -> None:
    with demo(folder) as running:
        link, code = asked(running)
        with Visitor("ada") as browser:
            browser.connect(link, code)
        place, number = re.findall(r"cd (\S+) && toolyard approve (\d+)", running.hear("toolyard approve")[-1])[0]
        running.hear("Waiting for you")
        assert toolyard("reject", number, "--reason", "not today", folder=Path(place)).code == 0
        running.hear("It was not approved")
        running.hear("not today")
        running.hear("main: whole")
        assert running.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_stopped_at_any_time_and_leaves_nothing_behind(folder: Path, number: int) -> None:
    with demo(folder) as running:
        running.hear("Waiting for you")
        at = addresses("\n".join(running.said))
        assert [is_open(address) for address in at] == [True, True]
        assert len(left_behind(folder)) > 1
        assert running.end(number) == 130
        running.hear("Stopped. Nothing is left of it.")
    assert [is_open(address) for address in at] == [False, False]
    assert left_behind(folder) == []


def test_it_can_be_stopped_while_it_starts(folder: Path) -> None:
    with demo(folder) as running:
        running.hear("Starting a server")
        assert running.end(signal.SIGINT) == 130
    assert left_behind(folder) == []


def test_ctrl_c_in_the_middle_of_starting_its_server_ends_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = subprocess.Popen, list["subprocess.Popen[bytes]"]()

    def interrupted(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(start(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with (
        socket.socket() as listener,
        pytest.raises(KeyboardInterrupt),
        _serving(tmp_path, "http://127.0.0.1:1", listener.fileno()),
    ):
        raise AssertionError("it went on")
    assert started[0].poll() is not None


def test_an_account_may_be_connected_by_another_link(folder: Path) -> None:
    """The line that the demo shows was typed in another terminal, and its link was opened."""
    with demo(folder) as running:
        asked(running)
        with Client(addresses("\n".join(running.said))[0]) as client, pytest.raises(MissingRequirements) as refusal:
            client.call("Mail.Unread", user_id="you")
        (challenge,) = refusal.value.missing.authorization
        with Visitor("bob") as browser:
            browser.connect(challenge.url, refusal.value.message.rpartition(" ")[2])
        running.hear("Connected: bob@demo.example")
        running.hear('"Your parcel is on its way"')


def test_who_stops_reading_ends_it(folder: Path) -> None:
    process = warm.start(
        command("demo", "--auto"),
        cwd=folder.parent,
        env=variables(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (1, "")
    assert left_behind(folder) == []


def test_a_server_that_does_not_start_is_told_with_what_it_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('not today')\n", encoding="utf-8")
    monkeypatch.setattr("toolyard.demo.stage.TOOLS", broken)
    with pytest.raises(SetupError, match=r"(?s)did not start:.*not today"), stage_in(folder):
        pass


def test_the_demo_is_loaded_by_no_other_verb() -> None:
    import sys

    code = "import sys; from toolyard.cli.command_line import command_line; command_line([]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "toolyard.cli.verbs.demo" in loaded, "the help names it"
    assert [name for name in loaded if name.startswith("toolyard.demo")] == []


class Denying(Visitor):
    """Somebody who does not allow it."""

    says = "deny"


def asked(running: Served) -> tuple[str, str]:
    """The link and the code that the demo shows."""
    heard = "\n".join(running.hear("Waiting for you"))
    link, code = re.search(r"open (http\S+/authorize/\S+)", heard), re.search(r"type (\S+), then", heard)
    assert link is not None
    assert code is not None
    return link[1], code[1]
