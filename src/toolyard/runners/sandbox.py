"""Schemas that strangers bring: a session's tools, workers' tools, and the values that are checked against them.

Whatever they are, they cost the server a bounded time and memory:

1. A document has at most 50,000 parts and 100 levels; that is counted before anything else looks at it.
2. What is *plain* (`schema_cost`), of at most 5,000 parts and with at most 400 characters of patterns, is compiled
   here: that takes at most about 30 ms (a pattern of `\\w\\w\\w…` is quadratic in jsonschema-rs; 400 characters take
   25 ms, all else of that size a few), and 64 KiB for each compiled pattern. What was compiled is kept up to 32 MiB.
3. A value is checked here if `steps * size` is at most 200,000, which takes at most about 40 ms (7 to 200 ns a step,
   measured), and what is wrong with it is explained here if that is at most 10,000 (8 us an error).
4. Everything else, be it large, deep, recursive in two ways, or with references that only the validator understands,
   is compiled and checked in a child process: a caller's one at a time, callers taking turns, within 2 seconds of
   processor time and 768 MiB. A child that takes more is ended, and what it was asked for is refused. It is started
   when it is first needed and then kept, so that one more check costs it a fraction of a millisecond. Once somebody has
   waited more than a moment behind another caller's check there are two of them, and never more.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter, OrderedDict
from hashlib import sha256
from typing import Any, TypeVar

import jsonschema_rs
import msgspec
from msgspec import Struct

from ..model.errors import Busy, Problem
from .schema_cost import Cost, NotPlain, bounded, measured
from .validation import compiled, problems_with

INLINE_PARTS = 5_000
INLINE_PATTERNS = 400
INLINE_LEVELS = 32
INLINE_STEPS = 200_000
EXPLAINED_STEPS = 10_000
CPU_S = 1
"""The system counts whole seconds: it is between one and two."""
WALL_S = 15.0
"""For a child on a machine that is busy with something else."""
ADDRESS_SPACE = 768 * 2**20
KEPT_BYTES = 32 * 2**20
PART_BYTES, PATTERN_BYTES = 300, 200 * 2**10
"""What a part and a pattern take once they are compiled (measured: 260 bytes, and 120 KiB with its caches)."""
MOST_CHILDREN = 2
MOMENT_S = 0.5
"""How long somebody waits before there is a second child: longer than it takes to start one, and than most checks."""
MOST_WAITING, MOST_OF_ONE = 64, 8
TOO_DEAR = f"checking it takes more than a second or {ADDRESS_SPACE >> 20} MiB of memory; make it simpler"
_LENGTH = 4
_SMALL_PATTERNS = jsonschema_rs.RegexOptions(size_limit=2**16, dfa_size_limit=2**16)
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")
Whose = tuple[str, str]
"""Tenant and subject: callers take turns."""


class SandboxRequest(Struct):
    """A schema and, if it is to be checked, a value, as JSON."""

    schema: bytes
    value: bytes | None = None


class SchemaVerdict(Struct):
    """What is wrong with the schema, or whether the value fits it."""

    reason: str | None = None
    fits: bool = True


class Explained(Struct):
    """What is wrong with a value, told after the verdict that it does not fit."""

    problems: tuple[Problem, ...]


class Known(Struct):
    """What was found out of a schema: why it cannot be checked, or its validator and cost, if it is checked here."""

    size: int
    reason: str | None = None
    """Why it cannot be checked."""
    validator: Any = None
    """Where it may be checked here."""
    cost: Cost | None = None
    is_proven: bool = False


class ChildEnded(Exception):
    """Raised where the child process came to its end before it answered."""

    def __init__(self, *, of_time: bool) -> None:
        self.of_time = of_time


class Sandbox:
    """Compiles strangers' schemas and checks values against them: here where that is surely cheap, and otherwise in a
    child process with limits."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._kept = 0
        self._children: set[SandboxProcess] = set()
        self._most_children = 1
        self._turn = asyncio.Semaphore(self._most_children)
        self._growing: asyncio.TimerHandle | None = None
        self._turns: dict[Whose, asyncio.Lock] = {}
        self._waiting: Counter[Whose] = Counter()

    async def prove(self, schema: dict[str, Any], whose: Whose) -> None:
        """Raises ValueError with the reason if a schema cannot be checked, and Busy if too many want to know."""
        document = _encode(schema)
        known = await self._look(document, schema)
        if known.validator is None and not known.is_proven and known.reason is None:
            verdict, _ = await self._asked(SandboxRequest(document), whose)
            known.reason, known.is_proven = verdict.reason, verdict.reason is None
        if known.reason is not None:
            raise ValueError(known.reason)

    async def check(self, schema: dict[str, Any], value: Any, whose: Whose) -> tuple[Problem, ...]:
        """What is wrong with a value; nothing if it fits. Raises Busy."""
        document = _encode(schema)
        known = await self._look(document, schema)
        if known.reason is not None:
            return (Problem("", f"Cannot be checked: {known.reason}"),)
        if known.cost is not None:
            size, depth = measured(value, INLINE_STEPS)
            steps = known.cost.steps(depth) * size
            if steps <= INLINE_STEPS and known.validator.is_valid(value):
                return ()
            if steps <= EXPLAINED_STEPS:
                return problems_with(known.validator, schema, value)
        verdict, problems = await self._asked(SandboxRequest(document, _encode(value)), whose)
        if verdict.reason is not None:
            return (Problem("", f"Cannot be checked: {verdict.reason}"),)
        return problems

    @property
    def is_busy(self) -> bool:
        """Whether a child is being asked something, or about to be."""
        return bool(self._waiting)

    async def close(self) -> None:
        """After this it can be used again."""
        while self._children:
            self._children.pop().kill()
        if self._growing is not None:
            self._growing.cancel()
            self._growing = None

    async def _look(self, document: bytes, schema: dict[str, Any]) -> Known:
        """What is known of it, and otherwise what can be known without asking the child."""
        digest = sha256(document).digest()
        known = self._known.get(digest)
        if known is not None:
            self._known.move_to_end(digest)
            return known
        known = self._known[digest] = _examined(schema, len(document))
        self._kept += known.size
        while self._kept > KEPT_BYTES and len(self._known) > 1:
            self._kept -= self._known.popitem(last=False)[1].size
        await asyncio.sleep(0)  # many may come at once: others have their turn in between
        return known

    async def _asked(self, ask: SandboxRequest, whose: Whose) -> tuple[SchemaVerdict, tuple[Problem, ...]]:
        if self._waiting.total() >= MOST_WAITING or self._waiting[whose] >= MOST_OF_ONE:
            raise Busy("Too many schemas are being checked; try again in a moment", retry_after_ms=1000)
        self._waiting[whose] += 1
        try:
            async with self._turns.setdefault(whose, asyncio.Lock()):
                self._grow_in_a_moment()
                async with self._turn:
                    return await self._answered(ask)
        finally:
            self._waiting[whose] -= 1
            if not self._waiting[whose]:
                del self._waiting[whose], self._turns[whose]

    async def _answered(self, ask: SandboxRequest) -> tuple[SchemaVerdict, tuple[Problem, ...]]:
        """A child that was there before may have come to the end of its memory by what others asked: then a new one is
        asked. Time is counted anew for each question."""
        child = next((child for child in self._children if not child.is_spent), None)
        while True:
            is_new = child is None
            if child is None:
                child = await started()
                self._children.add(child)
            try:
                return await child.answer(ask)
            except ChildEnded as ended:
                if is_new or ended.of_time:
                    return SchemaVerdict(TOO_DEAR, fits=False), ()
            finally:
                if child.is_spent:
                    child.kill()
                    self._children.discard(child)
            child = None

    def _grow_in_a_moment(self) -> None:
        if self._turn.locked() and self._growing is None and self._most_children < MOST_CHILDREN:
            self._growing = asyncio.get_running_loop().call_later(MOMENT_S, self._grow)

    def _grow(self) -> None:
        """Allows one more child, if a caller still waits behind another's check."""
        self._growing = None
        if len(self._waiting) > self._most_children:
            self._most_children += 1
            self._turn.release()


async def started() -> "SandboxProcess":
    ours, theirs = socket.socketpair()
    with theirs:
        process = _process(theirs.fileno())
    try:
        reader, writer = await asyncio.open_connection(sock=ours)
    except BaseException:
        process.kill()
        process.wait()
        ours.close()
        raise
    return SandboxProcess(process, reader, writer)


def _process(link: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "toolyard.runners.sandbox_child", str(link)],
        pass_fds=[link],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


class SandboxProcess:
    """The child process that checks what is costly, and the connection to it."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self.is_spent = True
        """Unless it has answered all that it was asked: then it is idle."""

    async def answer(self, ask: SandboxRequest) -> tuple[SchemaVerdict, tuple[Problem, ...]]:
        """Raises Ended. What is wrong is told even where there is no time to say what."""
        self.is_spent = True
        verdict: SchemaVerdict | None = None
        problems: tuple[Problem, ...] = ()
        try:
            async with asyncio.timeout(WALL_S):
                self._writer.write(framed(ask))
                verdict = await self._next(SchemaVerdict)
                if not verdict.fits:
                    problems = (await self._next(Explained)).problems
            self.is_spent = False
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError) as error:
            if verdict is None:
                of_time = isinstance(error, TimeoutError) or await self._ended_of_time()
                raise ChildEnded(of_time=of_time) from None
            problems = (Problem("", "Does not fit its schema"),)
        return verdict, problems

    async def _next(self, kind: type[T]) -> T:
        length = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
        return msgspec.msgpack.decode(await self._reader.readexactly(length), type=kind)

    async def _ended_of_time(self) -> bool:
        """Whether the system ended a process that has closed its end of the connection."""
        return await asyncio.to_thread(self._process.wait) == -signal.SIGXCPU

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._writer.close()


def framed(said: SandboxRequest | SchemaVerdict | Explained) -> bytes:
    data = msgspec.msgpack.encode(said)
    return len(data).to_bytes(_LENGTH, "big") + data


def _examined(schema: dict[str, Any], length: int) -> Known:
    try:
        parts, patterns = bounded(schema)
    except ValueError as error:
        return Known(1000, str(error))
    if parts > INLINE_PARTS or patterns > INLINE_PATTERNS:
        return Known(1000)
    try:
        cost = Cost(schema, INLINE_LEVELS)
        cost.most_levels()
    except NotPlain:
        return Known(1000)
    except ValueError as error:
        return Known(1000, str(error))
    try:
        validator = compiled(schema, _SMALL_PATTERNS)
    except ValueError as error:
        return Known(1000, None if patterns else str(error))  # a larger pattern may be good
    return Known(length + PART_BYTES * parts + PATTERN_BYTES * cost.patterns, None, validator, cost)
