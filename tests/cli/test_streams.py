"""Streams that are closed or full, a working directory that is gone: one sentence, and no traceback."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .processes import Ended, Served

Run = Callable[..., Ended]
FULL = "/dev/full"


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, name, None)


def test_nothing_can_be_read_from_an_input_that_is_closed(
    here: Run, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "stdin")
    ended = here("secrets", "set", "K")
    assert ended == Ended(2, "", "toolyard: the value must be a text that is not empty\n")


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "full"])
def test_what_cannot_be_written_is_no_success(here: Run, monkeypatch: pytest.MonkeyPatch, is_closed: bool) -> None:
    if is_closed:
        without(monkeypatch, "stdout")
    else:
        monkeypatch.setattr(sys, "stdout", open(FULL, "w"))  # noqa: SIM115
    ended = here("settings")
    reason = "Bad file descriptor" if is_closed else "No space left on device"
    assert (ended.code, ended.err) == (2, f"toolyard: standard output or a file cannot be written: {reason}\n")


def test_a_call_whose_value_cannot_be_written_was_made(
    here: Run, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as change:
        change.setattr(sys, "stdout", open(FULL, "w"))  # noqa: SIM115
        ended = here("call", "Kit.Add", "a=1", "b=2", "--call-id", "lost", "--server", server.address)
    said = "the call was made, and what it returned cannot be written (No space left on device); look for it with: "
    assert (ended.code, ended.err) == (2, f"toolyard: {said}toolyard show lost\n")


def test_who_reads_no_more_than_the_beginning_is_told_nothing(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdout", os.fdopen(writing, "w"))
    assert here("--version") == Ended(1, "", "")


def test_with_errors_closed_as_well_there_is_still_an_exit_code(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "stderr")
    assert here("lock", "nothing.py").code == 2


def test_a_key_that_could_not_be_shown_is_revoked_again(
    here: Run, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as change:
        change.setattr(sys, "stdout", open(FULL, "w"))  # noqa: SIM115
        ended = here("keys", "new", "agent")
    assert (ended.code, ended.err) == (
        2,
        "toolyard: the key could not be shown (No space left on device), so it is revoked again; make another\n",
    )
    assert here("keys", "list").out.splitlines()[1].endswith("revoked")


def test_a_working_directory_that_is_gone_is_told_of(
    here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    ended = here("list", "--file", "tools.py")
    assert ended == Ended(2, "", "toolyard: tools.py does not exist (the working directory is gone)\n")


def test_a_file_that_cannot_be_had_is_named(here: Run, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever verb it was, and whatever it forgot to look after."""
    (alone / "toolyard.db").touch()
    (alone / "toolyard.db.admin").mkdir()
    (alone / "toolyard.db.lock").mkdir()
    ended = here("calls")
    assert (ended.code, "Is a directory" in ended.err, ended.err.count("\n")) == (2, True, 1)
