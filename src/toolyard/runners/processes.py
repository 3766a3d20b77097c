"""In a child process: tools that keep a processor busy, or that must be stoppable.

A child loads the author's file once and is used again. It runs one call at a time, and it is killed when that call is
given up, so that nothing goes on behind the caller's back.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from ..model.errors import ToolError
from ..model.run import Run
from .frames import FailedFrame, Frame, Log, ProgressFrame, Raised, Returned, Start, pack, receive
from .turns import Seats, turn_of

LEAVE_S = 5.0
Place = asyncio.Future[None]


class ChildFailed(Exception):
    """Raised where a child process raised or died. Its own traceback is a note on this."""


class ChildProcess:
    """A child process with the author's file loaded, and the socket on which calls go to it."""

    def __init__(self, target: str) -> None:
        ours, theirs = socket.socketpair()
        self.target = target
        self._socket = ours
        command = [sys.executable, "-m", "toolyard.runners.child", str(theirs.fileno()), target]
        paths = os.pathsep.join(path for path in sys.path if path)
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
            )

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)

    async def run(self, run: Run) -> Any:
        self._writer.write(
            pack(
                Start(
                    run.tool.reference, run.call_id, run.caller.names, run.input_json,
                    run.trace_id, run.user_info, run.secrets, run.tokens,
                )
            )
        )  # fmt: skip
        while True:
            frame = await self._next(run)
            if isinstance(frame, ProgressFrame):
                run.progress(frame.done, frame.total, frame.message)
            elif isinstance(frame, Log):
                run.log(frame.level, frame.message, frame.fields)
            else:
                return _result(frame)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._writer.close()

    async def leave(self) -> None:
        """Lets it close its app's resources, and kills it if that takes too long."""
        self._writer.close()
        try:
            await asyncio.to_thread(self.process.wait, LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    async def _next(self, run: Run) -> Frame:
        try:
            return await receive(self._reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = self.process.wait()
            raise ChildFailed(f"the process of {run.tool.id} ended with exit code {code}") from None


def _result(frame: Frame) -> Any:
    if isinstance(frame, Returned):
        return frame.value
    if isinstance(frame, FailedFrame):
        raise ToolError(
            frame.message,
            developer_message=frame.developer_message,
            can_retry=frame.can_retry,
            retry_after_ms=frame.retry_after_ms,
            additional_prompt_content=frame.additional_prompt_content,
        )
    assert isinstance(frame, Raised)  # noqa: S101
    failed = ChildFailed(frame.text)
    failed.add_note(frame.traceback)
    raise failed


class Processes:
    """Runs tools in at most `size` child processes; idle ones are kept for the next call of the same target.
    Callers take turns, and `for_newcomers` of the processes are for callers that have none."""

    waits_for_claim = has_foreign_schemas = can_ask = takes_meta = False
    place = "here, in a process of its own"

    def __init__(self, size: int, *, for_newcomers: int = 0) -> None:
        self._seats: Seats[Place] = Seats(size, for_newcomers)
        self._idle: defaultdict[str, list[ChildProcess]] = defaultdict(list)
        self._busy: set[ChildProcess] = set()
        self._size = size

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        who = turn_of(run.caller)
        await self._turn(who)
        try:
            return await self._run_in_child(run)
        finally:
            self._give_back(who)

    async def close(self) -> None:
        """Idle children close what their app has open; busy ones have had their time."""
        for child in self._busy:
            child.kill()
        idle = [child for children in self._idle.values() for child in children]
        self._idle.clear()
        await asyncio.gather(*(child.leave() for child in idle))

    async def _turn(self, who: Hashable) -> None:
        if self._seats.take(who):
            return
        place: Place = asyncio.get_running_loop().create_future()
        self._seats.join(who, place)
        try:
            await place
        except asyncio.CancelledError:
            if not self._seats.leave(who, place):  # the turn came just as we left
                self._give_back(who)
            raise

    def _give_back(self, who: Hashable) -> None:
        self._seats.give_back(who)
        while (place := self._seats.next()) is not None:
            if not place.done():  # who was cancelled gives the seat back
                place.set_result(None)

    async def _run_in_child(self, run: Run) -> Any:
        child = await self._child(run.tool.host.target or run.tool.code.origin.file)
        self._busy.add(child)
        try:
            value = await child.run(run)
        except (ToolError, ChildFailed):
            self._keep(child)
            raise
        except BaseException:  # given up: cancelled or timed out
            child.kill()
            raise
        finally:
            self._busy.discard(child)
        self._keep(child)
        return value

    async def _child(self, target: str) -> ChildProcess:
        if self._idle[target]:
            return self._idle[target].pop()
        idle = [child for children in self._idle.values() for child in children]
        if len(idle) + len(self._busy) >= self._size:
            self._idle[idle[0].target].remove(idle[0])
            idle[0].kill()
        child = ChildProcess(target)
        await child.connect()
        return child

    def _keep(self, child: ChildProcess) -> None:
        if child.process.poll() is None:
            self._idle[child.target].append(child)
        else:
            child.kill()
