"""The parent of a group: starts the processes that serve, starts those again that die, and has all of them stop.

It holds the listening socket, so that connections wait while a process is started again, and takes no part in calls: it
loads no tools and has no event loop. Each process is a new program and no fork, since a fork would have copies of
threads' locks. A signal to the parent is for all of them; they are in process groups of their own, so that Ctrl-C
reaches the parent alone, which tells them once.

The first process starts by itself: what is wrong with tools or settings is then said once, and the ledger's schema and
key are made by one. A process that dies is started again, after a pause that doubles from death to death, with the
settings that the others follow: what somebody writes into the file counts when SIGHUP says so, for all of them. If none
takes calls and none can be started, the parent gives up: whoever started it may know better.
"""

import logging
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from ...model.json_value import decode_as
from ...supervision import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_S
from .hang_up import Terminal
from .member import SHARES, GroupMember, GroupSettings, News, TakesCalls
from .shares import ABSENT, Shares

GIVES_UP_AFTER = 5
"""How often each process dies before it takes calls, while no other does, until the parent gives up."""
LONGEST_FOLDER = 80
"""Sockets are made in the group's folder, and their paths have at most some hundred bytes."""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_log = logging.getLogger("toolyard.server")


class Child:
    """The process of one number: the one that runs now, or the pause until the next is started."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.line: socket.socket | None = None
        self.said = b""
        self.has_ended_once = False
        self.is_to_read_again = False
        """Whether SIGHUP came while it started, or was to be started."""
        self.ready_at: float | None = None
        """When it began to take calls; None before that, and while there is no process."""
        self.starts_at: float | None = None
        """When it is started again; None while it runs."""
        self.failures = 0
        """How many of its processes died in a row before they took calls."""
        self._pause_s = 0.0

    def is_settled(self) -> bool:
        """Whether its first start is over, well or not."""
        return self.ready_at is not None or self.has_ended_once

    def dies(self) -> float:
        """Returns how many seconds to pause. After a steady time this is a new trouble, and the pauses begin anew."""
        is_steady = self.ready_at is not None and time.monotonic() - self.ready_at >= STEADY_S
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) if self._pause_s and not is_steady else FIRST_PAUSE_S
        self.failures = 0 if self.ready_at is not None else self.failures + 1
        self.process, self.ready_at, self.has_ended_once = None, None, True
        self.starts_at = time.monotonic() + self._pause_s
        return self._pause_s


class Group:
    """All processes that serve one socket. `command` starts one of them when it is given its membership; `written` is
    what stands in the settings file; `announce` shows people what the first of them said once all have started."""

    def __init__(
        self,
        command: Callable[[GroupMember], Sequence[str]],
        listener: socket.socket,
        count: int,
        folder: Path,
        written: str,
        announce: Callable[[str], None],
    ) -> None:
        self._command, self._listener, self._folder = command, listener, folder
        self._settings = GroupSettings(written, written)
        self._announce: Callable[[str], None] | None = announce
        self._children = [Child(number) for number in range(1, count + 1)]
        self._shares = Shares(folder / SHARES, count)
        self._selector = selectors.DefaultSelector()
        self._text: str | None = None
        """What to announce, once a process has ever taken calls."""
        self._signals: list[int] = []
        """That have come, and were not passed on yet: a signal's handler may interrupt the start of a process."""
        self._is_stopping = False
        self._code = 0

    def run(self) -> int:
        """Until all processes have ended, for which the first signal asks. Returns the exit code."""
        terminal = Terminal()
        with _waking() as wake:
            self._selector.register(wake, selectors.EVENT_READ)
            for number in HANDLED:
                signal.signal(number, lambda number, frame: self._signals.append(number))
            self._start(self._children[0])
            while not self._is_over():
                for key, _ in self._selector.select(self._timeout_s()):
                    if key.fileobj is wake:
                        wake.recv(4096)
                    else:
                        self._hear(key.data)
                self._pass_on(terminal)
                self._reap()
                self._start_due()
        return self._code

    def _is_over(self) -> bool:
        return self._is_stopping and all(child.process is None for child in self._children)

    def _timeout_s(self) -> float | None:
        due = [child.starts_at for child in self._children if child.starts_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due and not self._is_stopping else None

    def _pass_on(self, terminal: Terminal) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number == signal.SIGHUP and terminal.is_closed():
                number = signal.SIGINT
            if number != signal.SIGHUP:
                self._stop()
            self._tell_all(number)

    def _tell_all(self, number: int) -> None:
        """Sends a signal to all processes. One that does not take calls yet has no order to end in, and may have read
        its settings before they were changed: it is told to read them again once it takes calls."""
        for child in self._children:
            if number == signal.SIGHUP and child.ready_at is None:
                child.is_to_read_again = True
            elif child.process is not None:
                child.process.send_signal(number if child.ready_at is not None else signal.SIGTERM)

    def _stop(self) -> None:
        """Starts nobody any more. The socket is then the processes' alone, and closed when they close it."""
        self._is_stopping = True
        self._listener.close()

    def _start(self, child: Child) -> None:
        ours, theirs = socket.socketpair()
        child.starts_at = None
        with theirs, ExitStack() as stack:
            try:
                # Without a name, since secrets may stand in it: nothing of it is left behind.
                settings = stack.enter_context(tempfile.TemporaryFile(dir=self._folder))
                settings.write(msgspec.json.encode(self._settings))
                settings.seek(0)
                fds = self._listener.fileno(), theirs.fileno(), settings.fileno()
                command = self._command(GroupMember(child.number, len(self._children), *fds, str(self._folder)))
                child.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=fds, process_group=0)
            except OSError as error:
                ours.close()
                _log.error("process %d cannot be started now: %s", child.number, error.strerror)
                self._on_death(child, 1)
                return
        child.line, child.said = ours, b""
        self._selector.register(ours, selectors.EVENT_READ, child)

    def _start_due(self) -> None:
        for child in self._children:
            if child.starts_at is not None and child.starts_at <= time.monotonic() and not self._is_stopping:
                self._start(child)

    def _hear(self, child: Child) -> None:
        """Reads what a process says, line by line."""
        try:
            said = b"" if child.line is None else child.line.recv(2**16)
        except ConnectionError:
            said = b""
        child.said += said
        if not said:
            self._hang_up(child)
        *lines, child.said = child.said.split(b"\n")
        for line in lines:
            news = decode_as(line, News)
            if news.follows is not None:
                self._settings = GroupSettings(self._settings.started, news.follows)
            if news.takes_calls is not None:
                self._on_ready(child, news.takes_calls)

    def _hang_up(self, child: Child) -> None:
        if child.line is not None:
            self._selector.unregister(child.line)
            child.line.close()
            child.line = None

    def _on_ready(self, child: Child, ready: TakesCalls) -> None:
        child.ready_at = time.monotonic()
        if child.is_to_read_again and child.process is not None:
            child.process.send_signal(signal.SIGHUP)
            child.is_to_read_again = False
        _log.info("process %d takes calls: pid %d, node %s", child.number, ready.pid, ready.node)
        if self._text is None:
            self._text = ready.text
            for other in self._children:
                if other is not child:
                    self._start(other)
        self._announce_once()

    def _announce_once(self) -> None:
        if self._announce is not None and self._text is not None and all(each.is_settled() for each in self._children):
            self._announce(self._text)
            self._announce = None

    def _reap(self) -> None:
        for child in self._children:
            code = None if child.process is None else child.process.poll()
            if code is not None:
                self._on_death(child, code)

    def _on_death(self, child: Child, code: int) -> None:
        was_ready = child.ready_at is not None
        pause_s = child.dies()
        self._hang_up(child)
        self._shares.put(child.number, ABSENT)
        if self._is_stopping:
            self._code = self._code or int(was_ready and code != 0)
        elif self._text is None:
            self._give_up(child, code)
        else:
            when = "" if was_ready else " before it took calls"
            _log.error("process %d %s%s; the next start is in %g s", child.number, _ended(code), when, pause_s)
            if all(each.ready_at is None and each.failures >= GIVES_UP_AFTER for each in self._children):
                _log.error("no process can be started, so this server ends")
                self._end(1)
            self._announce_once()

    def _give_up(self, child: Child, code: int) -> None:
        """The very first process did not start. It has said why itself, if it could."""
        if code < 0:
            _log.error("process %d %s before it took calls, so this server does not start", child.number, _ended(code))
        self._end(code if code > 0 else 1)

    def _end(self, code: int) -> None:
        self._code = code
        self._stop()
        self._tell_all(signal.SIGTERM)


def _ended(code: int) -> str:
    return f"ended with code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


@contextmanager
def _waking() -> Iterator[socket.socket]:
    """A socket that can be read whenever a signal has come, the end of a child among them."""
    wake, woken = socket.socketpair()
    with wake, woken:
        wake.setblocking(False)
        woken.setblocking(False)
        signal.signal(signal.SIGCHLD, _nothing)
        before = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(before)


def _nothing(*_: object) -> None:
    """A handler, so that the signal wakes the parent."""


@contextmanager
def group_folder() -> Iterator[Path]:
    """A folder for a group, of this user alone, until the group is gone."""
    places = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]
    for place in filter(None, places):
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="toolyard-", dir=place if len(place) <= LONGEST_FOLDER else "/tmp"))
            break
    else:
        raise OSError("there is no folder for temporary files")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def supervise(
    arguments: Sequence[str],
    listener: socket.socket,
    count: int,
    folder: Path,
    written: str,
    announce: Callable[[str], None],
) -> int:
    """Runs `toolyard` with these arguments in so many processes, until told to stop. Returns the exit code."""

    def command(member: GroupMember) -> list[str]:
        return [sys.executable, "-m", "toolyard", *arguments, "--member", member.written()]

    return Group(command, listener, count, folder, written, announce).run()
