"""A process that starts warm is like one that starts cold."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import warm
from .cli.processes import DEADLINE_S, command
from .conformance.serving import environment

TOOLS = '''
import os, sys
from toolyard import Toolkit

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def seen() -> str:
    """What there is to see in its process."""
    return ""


sys.stdout.write(repr((sys.argv, os.getcwd(), sys.path, os.environ.get("COLOUR"), sys.stdin.read())))
sys.stderr.write(repr((sys.stdout.write_through, sys.stderr.write_through, os.getppid())))
'''


def cold(arguments: list[str], input: str, cwd: Path, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(arguments, input=input, cwd=cwd, env=env, text=True, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["lock", "tools.py"], {}),
        (["lock", "tools.py"], {"PYTHONUNBUFFERED": ""}),
        (["lock", "tools.py"], {"PYTHONUNBUFFERED": "1", "COLOUR": "red"}),
        (["--version"], {}),
        (["serve", "nobody.py", "--port", "0"], {}),
        (["dance"], {"PYTHONUNBUFFERED": "1"}),
    ],
)
def test_it_sees_says_and_ends_the_same(arguments: list[str], more: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    given: Any = {"input": "in", "cwd": tmp_path, "env": environment("open") | more}
    expected = cold(command(*arguments), **given)
    (tmp_path / "tools.lock").unlink(missing_ok=True)
    ended = warm.run(command(*arguments), timeout=DEADLINE_S, **given)
    assert (ended.returncode, ended.stdout, ended.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    assert (repr(str(tmp_path)) in ended.stdout) == ("tools.py" in arguments), "it was loaded"


def test_it_is_a_child_that_can_be_killed(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with warm.start(command("stdio"), cwd=tmp_path, env=environment("open"), stdin=pipe, stdout=pipe) as process:
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(DEADLINE_S) == -signal.SIGKILL


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> warm.Door:
    return warm.Door(tmp_path_factory.mktemp("door"))


def in_a_shell(script: str, first: Path, cwd: Path) -> "subprocess.Popen[str]":
    path = os.pathsep.join(map(str, (first, Path(sys.executable).parent, os.environ["PATH"])))
    return subprocess.Popen(
        ["bash", "-c", script], cwd=cwd, env=environment("open") | {"PATH": path, "COLOUR": "red"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize(
    "script", ["toolyard lock tools.py < tools.py", "echo in | toolyard --help", "toolyard dance; echo $?; exit 7"]
)
def test_a_shell_that_starts_it_sees_the_same(script: str, door: warm.Door, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS.replace(", os.getppid()", ""), encoding="utf-8")
    seen = []
    for first in (door.folder, Path(sys.executable).parent):
        (tmp_path / "tools.lock").unlink(missing_ok=True)
        with in_a_shell(script, first, tmp_path) as shell:
            seen.append((*shell.communicate(timeout=DEADLINE_S), shell.returncode))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_shell_started_ends_with_its_command(number: signal.Signals, door: warm.Door, tmp_path: Path) -> None:
    with in_a_shell("exec toolyard serve --port 0", door.folder, tmp_path) as shell:
        assert shell.stdout is not None
        assert any("Stop with Ctrl-C." in line for line in iter(shell.stdout.readline, ""))
        shell.send_signal(number)
        assert shell.wait(DEADLINE_S) == (0 if number == signal.SIGTERM else -number)
        shell.communicate(timeout=DEADLINE_S)  # whoever has these streams is gone


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (command("--version", flags=["-X", "dev"]), {}),
        (command("--version"), {"PYTHONPATH": "/elsewhere"}),
        ([sys.executable, "--version"], {}),
    ],
)
def test_what_another_python_is_for_starts_cold(arguments: list[str], more: dict[str, str], tmp_path: Path) -> None:
    with warm.start(arguments, cwd=tmp_path, env=environment("open") | more, stderr=subprocess.DEVNULL) as process:
        assert not isinstance(process, warm.Warm)
