"""A program that speaks MCP over its standard input and output: started, read, and ended with all that it started.

It has a process group of its own, which is ended as a whole. Should this server be killed, nobody could do that any
more: so a guard, a shell that waits for the end of a pipe which only this server holds, does it then.
"""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import cast

from ..model.upstream import INHERITED, Upstream
from ..text.hidden import escaped
from ..text.scrubber import Scrubber
from .faults import NotSent
from .pace import Pace

CHUNK = 2**16
LONGEST_ERROR_LINE = 2000
MOST_ERROR_LINES = 200
"""Of standard error, that are logged in `ERROR_LINES_S`. A program in trouble may write without an end."""
ERROR_LINES_S = 60.0
DROPPED_S = 0.1
"""How long a program waits that has written so much: what comes then is read slowly, and dropped."""
CLOSED_S = 1.0
"""How long a program may go on that has closed its input or output: mostly it is about to end."""
DRAIN_S = 0.2
"""How long the last of what a program wrote is waited for, once it has ended."""
LEAVE_S, TERM_S = 2.0, 2.0
"""How long a program may take to end by itself once its input has ended, and then after SIGTERM."""
MOST_UNSENT = 16 * 2**20
"""Bytes that wait for a program which does not read; then nothing more is sent to it."""
GUARD = ("/bin/sh", "-c", 'read _ || kill -KILL -- "-$0"')
DEPTH, MOST_DEPTH = "TOOLYARD_UPSTREAM_DEPTH", 4
"""The variable that says how many servers have started each other, down to this one. Settings by which a server starts
itself would go on without an end."""
PROGRAMS = "toolyard.upstream.program"
"""The logger that has what programs write to standard error."""
_log = logging.getLogger(PROGRAMS)


def _depth() -> int:
    given = os.environ.get(DEPTH, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 4 else 0


def environment_of(values: Mapping[str, str]) -> dict[str, str]:
    """Of our own environment a program has only what it cannot do without: the rest may be secrets."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(values)


class Process(asyncio.SubprocessProtocol):
    """A running program. `on_line` is called with each line that it writes, `on_end` once it has ended, with why."""

    def __init__(
        self,
        name: str,
        most: int,
        scrubber: Scrubber | None,
        on_line: Callable[[bytes], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`most`: bytes of the longest line. `scrubber` keeps the program's secrets out of the log."""
        self._name, self._most, self._scrubber = name, most, scrubber
        self._on_line, self._on_end = on_line, on_end
        self._line, self._errors = bytearray(), bytearray()
        self._transport: asyncio.SubprocessTransport | None = None
        self._guard: asyncio.SubprocessTransport | None = None
        self._group = 0
        """The process group, while the program is there; then its number may be another's."""
        self._pace = Pace()
        self._why: str | None = None
        self._is_closing = self._is_drained = self._is_over = False
        """It is told to end; nothing more comes from it; and whoever waited for it knows."""
        self._logged, self._logged_since = 0, 0.0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.ended = asyncio.Event()
        self.unguarded = asyncio.Event()
        """Nobody watches over it any more."""

    @classmethod
    async def start(cls, upstream: Upstream, values: Mapping[str, str], made: "Process") -> None:
        """Starts the program with these variables. Raises NotSent."""
        depth = _depth()
        if depth >= MOST_DEPTH:
            raise NotSent(
                f"is not started: this server is itself started by others, {depth} deep; does it start itself?"
            )
        environment = environment_of(values) | {DEPTH: str(depth + 1)}
        program = shutil.which(upstream.command[0], path=environment.get("PATH", os.defpath))
        if program is None:
            raise NotSent(f"cannot be started: there is no program {upstream.command[0]!r}")
        loop = asyncio.get_running_loop()
        command = [program, *upstream.command[1:]]
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: made, *command, env=environment, cwd=upstream.cwd, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise NotSent(f"cannot be started: {escaped(str(error))[:200]}") from None
        pid = transport.get_pid()
        try:
            guard, _ = await loop.subprocess_exec(
                lambda: ProcessGuard(made.unguarded),
                *GUARD,
                str(pid),
                env={},
                stdout=None,
                stderr=None,
                start_new_session=True,
            )
            made._guard = guard
            if made.ended.is_set():
                made._dismiss_guard()
        except OSError as error:
            made.unguarded.set()
            _log.warning("%s: nobody would end it, should this server be killed: %s", upstream.name, error)

    @property
    def pid(self) -> int:
        return 0 if self._transport is None else self._transport.get_pid()

    async def send(self, line: bytes) -> None:
        """Raises NotSent where the program has ended, or does not read."""
        pipe = self._input
        if pipe is None:
            raise NotSent("has ended")
        if pipe.get_write_buffer_size() > MOST_UNSENT:
            raise NotSent("does not read what it is sent")
        pipe.write(line + b"\n")
        if not self._has_room.is_set():
            await self._has_room.wait()

    def send_soon(self, line: bytes) -> None:
        """The same, where nobody waits for it or could be told."""
        pipe = self._input
        if pipe is not None and pipe.get_write_buffer_size() <= MOST_UNSENT:
            pipe.write(line + b"\n")

    async def close(self) -> None:
        """Ends the program and all that it has started: gently first."""
        if self._transport is None:
            return
        self._is_closing = True
        if (pipe := self._input) is not None:
            pipe.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.ended.wait()
        _signal(self._group, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(TERM_S):
                await self.ended.wait()
        self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(TERM_S):
                await self.ended.wait()
                await self.unguarded.wait()

    def kill(self, why: str | None = None) -> None:
        """Ends it at once. Transports are closed once their processes have ended: before that, asyncio's would take the
        exit code from whoever waits for it."""
        self._why = self._why or why
        _signal(self._group, signal.SIGKILL)

    @property
    def _input(self) -> asyncio.WriteTransport | None:
        """While something can be sent."""
        pipe = None if self._transport is None or self.ended.is_set() else self._transport.get_pipe_transport(0)
        return None if pipe is None or pipe.is_closing() else cast(asyncio.WriteTransport, pipe)

    # -- what the event loop calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Before anything else: a program may have ended by the time that whoever started it goes on."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._group = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        began = asyncio.get_running_loop().time()
        if isinstance(data, bytes):
            pause_s = self._hear_errors(data) if fd == 2 else self._hear_lines(data)
            self._pause_reading(fd, max(pause_s, self._pace.pause_s(began)))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._is_drained = self._is_drained or fd == 1
        if self.ended.is_set():
            self._end()
        elif fd != 2 and not self._is_closing:
            what = f"closed its standard {'output' if fd else 'input'}, and was ended"
            asyncio.get_running_loop().call_later(CLOSED_S, self.kill, what)

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def process_exited(self) -> None:
        code = None if self._transport is None else self._transport.get_returncode()
        how = "was ended" if code is None else f"ended with {code}" if code >= 0 else f"was ended by signal {-code}"
        # Whatever it started must not outlive it: nobody would know of that any more.
        self.kill(how)
        self._group = 0
        self._dismiss_guard()
        self.ended.set()
        self._has_room.set()
        asyncio.get_running_loop().call_later(DRAIN_S, self._end, True)
        self._end()

    # -- its own ---------------------------------------------------------------------------------------

    def _end(self, is_late: bool = False) -> None:
        """Says that it is over, once all that it wrote has been heard, or nobody waits for that any longer."""
        if self._is_over or not (self._is_drained or is_late):
            return
        self._is_over = True
        if self._transport is not None:
            self._transport.close()
        self._on_end(self._why or "has ended")

    def _hear_lines(self, data: bytes) -> float:
        """For how long nothing more is read."""
        *whole, rest = data.split(b"\n")
        for end in whole:
            line = bytes(self._line) + end if self._line else end
            self._line.clear()
            if len(line) <= self._most:
                self._on_line(line)
            else:
                self._too_long()
        self._line += rest
        if len(self._line) > self._most:
            self._too_long()
        return 0.0

    def _too_long(self) -> None:
        self._line.clear()
        self.kill(f"wrote a line of more than {self._most} bytes, and was ended")

    def _hear_errors(self, data: bytes) -> float:
        """Logs what it writes to standard error, line by line. For how long nothing more of that is read."""
        self._errors += data
        while (end := self._errors.find(b"\n")) >= 0 or len(self._errors) > LONGEST_ERROR_LINE:
            end = end if 0 <= end <= LONGEST_ERROR_LINE else LONGEST_ERROR_LINE
            self._log_error(bytes(self._errors[:end]))
            del self._errors[: end + 1]
            if self._logged > MOST_ERROR_LINES:
                self._errors.clear()
                return DROPPED_S
        return 0.0

    def _pause_reading(self, fd: int, pause_s: float) -> None:
        pipe = None if self._transport is None else self._transport.get_pipe_transport(fd)
        if pause_s > 0 and pipe is not None and not pipe.is_closing():
            reading = cast(asyncio.ReadTransport, pipe)
            reading.pause_reading()
            asyncio.get_running_loop().call_later(pause_s, _resume_reading, reading)

    def _dismiss_guard(self) -> None:
        """By its number: a transport that is told to kill looks for the end first, and takes it from whoever waits. The
        guard's own protocol closes it."""
        guard, self._guard = self._guard, None
        if guard is not None:
            with suppress(ProcessLookupError):
                os.kill(guard.get_pid(), signal.SIGKILL)

    def _log_error(self, line: bytes) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._logged_since > ERROR_LINES_S:
            self._logged, self._logged_since = 0, now
        self._logged += 1
        if self._logged > MOST_ERROR_LINES:
            return
        text = line.decode(errors="replace").rstrip()
        if self._scrubber is not None:
            text = self._scrubber.text(text)
        if text:
            _log.info("%s: %s", self._name, escaped(text))
        if self._logged == MOST_ERROR_LINES:
            _log.warning("%s writes too much to standard error; for a minute nothing more of it is logged", self._name)


class ProcessGuard(asyncio.SubprocessProtocol):
    """The guard of a program, as far as this server has to know of it: that it is gone."""

    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def process_exited(self) -> None:
        self._gone.set()
        if self._transport is not None:
            self._transport.close()


def _resume_reading(pipe: asyncio.ReadTransport) -> None:
    if not pipe.is_closing():
        pipe.resume_reading()


def _signal(group: int, number: int) -> None:
    """Signals a process group, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        if group > 1:
            os.killpg(group, number)
