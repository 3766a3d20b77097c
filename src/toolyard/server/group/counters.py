"""The counters of all processes of a group, for whichever of them is asked for `/metrics`.

Each process answers at a socket in the group's folder with what it has counted. It also writes that to a file, every
second: for one that is stuck or dead the file answers, and the process that takes the place of a dead one goes on from
it, so that no sum ever falls. A process that is killed takes a second of counting with it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from ...model.json_value import decode_as
from ..intake.metrics import Metrics
from ..intake.process_counts import CallCount, ProcessCounts
from .member import GroupMember

EVERY_S = 1.0
ANSWERS_WITHIN_S = 1.0
_encode = msgspec.json.Encoder().encode


class GroupCounters:
    """What the processes of a group have counted, as one of them sees it: its own from `metrics`."""

    def __init__(self, member: GroupMember, metrics: Metrics) -> None:
        self._member, self._metrics = member, metrics
        self._before: list[CallCount] = []
        """Of the processes that had this number before, and are gone."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Answers the others as long as the block runs."""
        self._before = _before(self._file(self._member.number))
        path = self._member.socket
        path.unlink(missing_ok=True)  # of the process that died
        server = await asyncio.start_unix_server(self._answer, path)
        try:
            yield
        finally:
            server.close()
            self._write()

    async def run(self) -> None:
        """Writes the file until cancelled."""
        while True:
            self._write()
            await asyncio.sleep(EVERY_S)

    async def all(self) -> list[ProcessCounts]:
        """Of every process of the group that has ever counted."""
        numbers = range(1, self._member.of + 1)
        found = await asyncio.gather(*(self._of(number) for number in numbers))
        return [each for each in found if each is not None]

    async def _of(self, number: int) -> ProcessCounts | None:
        if number == self._member.number:
            return self._own()
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                reader, writer = await asyncio.open_unix_connection(self._member.socket_of(number))
                try:
                    return decode_as(await reader.read(), ProcessCounts)
                finally:
                    writer.close()
        except TimeoutError:  # it is stuck
            return _read(self._file(number))
        except (OSError, msgspec.DecodeError):  # it is dead, and nothing runs there
            left = _read(self._file(number))
            return None if left is None else msgspec.structs.replace(left, running=0)

    def _own(self) -> ProcessCounts:
        return ProcessCounts.of(self._member.number, self._metrics, self._before)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_encode(self._own()))
        writer.close()

    def _write(self) -> None:
        """Whole from the first moment that it is there. On a full disk there is none: calls matter more."""
        made = Path(self._member.folder, f"{self._member.number}.new")
        with suppress(OSError):
            made.write_bytes(_encode(self._own()))
            os.replace(made, self._file(self._member.number))

    def _file(self, number: int) -> Path:
        return Path(self._member.folder, f"{number}.counts")


def _read(path: Path) -> ProcessCounts | None:
    """What a process has left there; None for one that never came so far."""
    try:
        return decode_as(path.read_bytes(), ProcessCounts)
    except (OSError, msgspec.DecodeError):
        return None


def _before(path: Path) -> list[CallCount]:
    left = _read(path)
    return [] if left is None else left.calls
