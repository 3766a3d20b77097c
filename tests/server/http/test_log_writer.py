"""The log is written by its own thread: in order and whole, and never at the cost of whoever logs."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolyard.server.http import log_writer
from toolyard.server.http.log_writer import LogWriter

DEADLINE_S = 30.0
LINE = "x" * 1000


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("toolyard.x", logging.WARNING, "f", 1, message, (), None)


class Piped:
    """A log into a pipe, which is read when the test likes."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        # The stream does not close it: by then the number may be another file's.
        self.writer = LogWriter(os.fdopen(self._writing, "w", closefd=False))
        self._is_closed = False

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            os.close(self._writing)

    def log(self, first: int, last: int) -> None:
        for number in range(first, last):
            self.writer.emit(record(f"{number} {LINE}"))

    def read(self, words: str) -> list[str]:
        """The lines up to one with these words."""
        found = b""
        while words.encode() not in found or not found.endswith(b"\n"):
            found += os.read(self.reading, 2**16)
        return found.decode().splitlines()


@pytest.fixture
def piped() -> Iterator[Piped]:
    piped = Piped()
    yield piped
    os.close(piped.reading)
    piped.writer.stop()
    piped.close()


def numbers(lines: list[str]) -> list[int]:
    return [int(line.split()[0]) for line in lines if line.endswith(LINE)]


def test_lines_that_find_no_room_are_dropped_and_counted(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "MOST_LINES", 100)
    with piped.writer._counts:  # the thread cannot say that it has written any
        piped.log(0, 1000)
    lines = piped.read("were dropped")
    assert numbers(lines) == list(range(100))
    assert lines[100:] == ["900 lines of the log were dropped here: they could not be written"]
    piped.log(1000, 1001)
    assert numbers(piped.read("1000 ")) == [1000]


def test_their_bytes_are_bounded_too(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "MOST_BYTES", 20 * len(LINE))
    with piped.writer._counts:
        piped.log(0, 1000)
    assert 10 < len(piped.read("were dropped")) < 20


def test_whoever_logs_does_not_wait_for_the_reader(piped: Piped) -> None:
    piped.log(0, 1000)  # a pipe holds 64 of them
    assert numbers(piped.read("999 ")) == list(range(1000))


def test_where_there_is_room_again_the_line_that_is_missing_has_its_place(
    piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MOST_LINES", 1)
    with piped.writer._counts:  # the thread cannot say that it has written the first
        piped.log(0, 2)
        monkeypatch.setattr(log_writer, "MOST_LINES", 10)
        piped.log(2, 3)
    assert [line.split()[0:2] for line in piped.read("2 x")] == [["0", LINE], ["1", "lines"], ["2", LINE]]


def test_a_pipe_that_does_not_wait_is_waited_for(piped: Piped) -> None:
    os.set_blocking(piped._writing, False)
    piped.log(0, 500)
    assert numbers(piped.read("499 ")) == list(range(500))


@pytest.mark.parametrize("place", ["/dev/full", "nobody"])
def test_what_cannot_be_written_costs_nothing(place: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "w") if place == "/dev/full" else os.fdopen(writing, "w") as stream:
        writer = LogWriter(stream)
        for _ in range(10):
            writer.emit(record(LINE))
        assert writer.wait(DEADLINE_S)
        assert writer._dropped == 10
        writer.stop()


def test_a_stream_that_a_tool_closes_is_written_on(piped: Piped) -> None:
    piped.close()
    piped.log(0, 3)
    assert numbers(piped.read("2 ")) == [0, 1, 2]


BEGIN = """
import logging, sys, threading
from toolyard.server.app.shutdown import LastResort
from toolyard.server.http.log_writer import log_writers
from toolyard.server.http.logs import set_up_logging
set_up_logging("info")
log = logging.getLogger("mine")
for number in range(5000):
    log.info("%d", number)
"""
ENDS = {
    "returns": "",
    "exits": "sys.exit(3)",
    "crashes": "raise RuntimeError('crash')",
    "is ended": "LastResort(0).ask()\nthreading.Event().wait()",
}


def run(program: str, stderr: int) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", program], stderr=stderr, text=True)


@pytest.mark.parametrize("end", ENDS)
def test_everything_that_was_logged_before_the_end_comes_out_in_order(end: str) -> None:
    with run(BEGIN + ENDS[end], subprocess.PIPE) as process:
        _, said = process.communicate(timeout=DEADLINE_S)
    lines = said.splitlines()
    assert [int(line.rsplit(None, 1)[1]) for line in lines[:5000]] == list(range(5000))
    assert ("RuntimeError: crash" in "\n".join(lines[5000:])) == (end == "crashes")


def test_a_process_that_has_to_be_ended_waits_for_its_log() -> None:
    program = """
(writer,) = log_writers()
writer.wait(30)
with writer._counts:  # the thread cannot go on after its next line
    for number in range(5000, 5003):
        log.info("%d", number)
    while writer._waiting.qsize() > 2:
        pass
    LastResort(0).ask()
    while writer._waiting.qsize() == 2:  # nobody waits for it yet
        pass
threading.Event().wait()
"""
    with run(BEGIN + program, subprocess.PIPE) as process:
        _, said = process.communicate(timeout=DEADLINE_S)
    assert [int(line.rsplit(None, 1)[1]) for line in said.splitlines()] == list(range(5003))


@pytest.mark.parametrize("end", ENDS)
def test_a_process_ends_though_nobody_reads_its_log(end: str) -> None:
    with run(BEGIN + ENDS[end], subprocess.PIPE) as process:
        code = process.wait(DEADLINE_S)
        assert code == {"returns": 0, "exits": 3}.get(end, 1)


SHARED = """
import logging, pathlib, sys
from toolyard.server.http.log_writer import LogWriter
writer = LogWriter(sys.stderr, pathlib.Path(sys.argv[1]))
for _ in range(5):
    writer.emit(logging.LogRecord("shared", logging.INFO, "", 0, sys.argv[2] * 100_000, None, None))
print("writes", flush=True)
writer.wait(60)
"""


def test_processes_that_share_a_log_write_whole_lines(tmp_path: Path) -> None:
    """Longer than what a pipe holds, and nobody reads until both are at it."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", SHARED, str(tmp_path / "lock")]
    processes = [
        subprocess.Popen([*command, letter], stdout=subprocess.PIPE, stderr=writing, text=True) for letter in "xy"
    ]
    os.close(writing)
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "writes\n"
    with open(reading, encoding="utf-8") as log:
        lines = log.read().splitlines()
    for process in processes:
        process.communicate()
    assert sorted(lines) == ["x" * 100_000] * 5 + ["y" * 100_000] * 5
