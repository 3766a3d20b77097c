"""The parent of a group starts processes again, later each time, passes signals on, and gives up when nothing helps."""

import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...conformance.serving import stop

DEADLINE_S = 30.0
TOP = """
import json, os, pathlib, signal, socket, sys, time
member = json.loads(sys.argv[1])
here, line, number = pathlib.Path(member["folder"]), socket.socket(fileno=member["line"]), member["number"]
def ready():
    tell(takes_calls={"pid": os.getpid(), "node": "n", "text": "all are here"})
def tell(**news):
    line.sendall(json.dumps(news).encode() + b"\\n")
def stay():
    while line.recv(1):
        pass
    (here / f"orphan-{number}").touch()
"""
STEADY = TOP + "ready(); stay()"
MORTAL = (
    TOP
    + """
def hear(signal, frame):
    with open(here / "heard", "a") as file:
        file.write(f"{number} {signal}\\n")
    if signal == 2:
        sys.exit(0)
signal.signal(signal.SIGHUP, hear)
signal.signal(signal.SIGINT, hear)
ready()
stay()
"""
)
ONCE = (
    TOP
    + """
started = here / f"started-{number}"
if started.exists():
    sys.exit(3)
started.touch()
ready()
stay()
"""
)


class Parent:
    """A parent, and what it says."""

    def __init__(self, count: int, folder: Path, script: str) -> None:
        driver = str(Path(__file__).with_name("parenting.py"))
        self.process = subprocess.Popen(
            [sys.executable, driver, str(count), str(folder), script], stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line.rstrip("\n"))

    def hear(self, words: str) -> str:
        """The next line with these words."""
        while True:
            line = self._lines.get(timeout=DEADLINE_S)
            self.said.append(line)
            if words in line:
                return line

    def pids(self, count: int) -> list[int]:
        """Of the next processes that take calls."""
        return [int(re.findall(r"pid (\d+)", self.hear("takes calls"))[0]) for _ in range(count)]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


@contextmanager
def parent(count: int, folder: Path, script: str) -> Iterator[Parent]:
    started = Parent(count, folder, script)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            stop(started.process)


def wait_for_end(pid: int) -> None:
    """Of a process that is not a child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([descriptor], [], [], DEADLINE_S)[0]
    os.close(descriptor)


def test_a_process_that_is_killed_is_started_again_and_signals_are_for_all(tmp_path: Path) -> None:
    with parent(2, tmp_path, MORTAL) as group:
        first, second = group.pids(2)
        group.hear("all are here")
        os.kill(second, signal.SIGKILL)
        assert group.hear("SIGKILL") == "process 2 was ended by SIGKILL; the next start is in 0.1 s"
        (third,) = group.pids(1)
        assert len({first, second, third}) == 3
        group.process.send_signal(signal.SIGHUP)
        heard = tmp_path / "heard"
        while not heard.exists() or len(heard.read_text().splitlines()) < 2:
            time.sleep(0.01)
        assert sorted(heard.read_text().splitlines()) == ["1 1", "2 1"]
        assert group.end(signal.SIGINT) == 0
        assert sorted(heard.read_text().splitlines()[2:]) == ["1 2", "2 2"]


def test_pauses_double_while_it_dies_at_once_and_the_parent_gives_up_when_nobody_can_be_started(tmp_path: Path) -> None:
    with parent(1, tmp_path, ONCE) as group:
        (pid,) = group.pids(1)
        os.kill(pid, signal.SIGKILL)
        assert group.process.wait(DEADLINE_S) == 1
        group.hear("no process can be started, so this server ends")
    pauses = [re.findall(r"in ([0-9.]+) s", line) for line in group.said if "next start" in line]
    assert [float(each[0]) for each in pauses] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert "process 1 ended with code 3 before it took calls; the next start is in 0.2 s" in group.said


def test_a_parent_whose_first_process_does_not_start_ends_with_its_code(tmp_path: Path) -> None:
    with parent(3, tmp_path, TOP + "sys.exit(2)") as group:
        assert group.process.wait(DEADLINE_S) == 2
    with parent(3, tmp_path, TOP + "os.kill(os.getpid(), 9)") as group:
        assert group.process.wait(DEADLINE_S) == 1
        group.hear("process 1 was ended by SIGKILL before it took calls, so this server does not start")


def test_the_others_serve_on_while_one_cannot_be_started(tmp_path: Path) -> None:
    script = TOP + "number == 2 and sys.exit(3); ready(); stay()"
    with parent(2, tmp_path, script) as group:
        group.hear("all are here")
        group.hear("process 2 ended with code 3 before it took calls; the next start is in 0.4 s")
        assert group.end(signal.SIGTERM) == 1, "a process that does not handle the signal has not ended in order"


def test_processes_hear_of_a_parent_that_is_killed(tmp_path: Path) -> None:
    with parent(2, tmp_path, STEADY) as group:
        pids = group.pids(2)
        group.end(signal.SIGKILL)
        for pid in pids:
            wait_for_end(pid)
    assert sorted(path.name for path in tmp_path.glob("orphan-*")) == ["orphan-1", "orphan-2"]
