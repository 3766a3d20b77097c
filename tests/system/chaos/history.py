"""What happened, as those who were there wrote it down: what clients were told, which effects the tools had, and what
the ledger holds in the end.

Nothing of toolyard's own code is used here: these are witnesses.
"""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

encode = msgspec.json.Encoder().encode


class Ended(Struct, frozen=True):
    """An outcome as somebody was told it. What a wire does not tell is None."""

    value: dict[str, Any] | None = None
    error: str | None = None
    can_retry: bool | None = None
    duration_ms: float | None = None

    def agrees_with(self, other: "Ended") -> bool:
        if (self.value, self.error) != (other.value, other.error):
            return False
        if None not in (self.can_retry, other.can_retry) and self.can_retry != other.can_retry:
            return False
        return None in (self.duration_ms, other.duration_ms) or self.duration_ms == other.duration_ms

    def __str__(self) -> str:
        said = encode(self.value).decode() if self.error is None else f"error {self.error!r}"
        return said if self.duration_ms is None else f"{said} in {self.duration_ms:g} ms"


class Named(Struct, frozen=True):
    """A call as its caller knows it. `family` is `oxp`, or the session."""

    who: str
    family: str
    call_id: str

    def __str__(self) -> str:
        return f"{self.who}'s {self.family}/{self.call_id}"


class Told(Struct, frozen=True, tag=True):
    """A client was told how a call ended; `how` says over which wire."""

    call: Named
    how: str
    ended: Ended
    at: float


class Taken(Struct, frozen=True, tag=True):
    """A server acknowledged a tool use of a message, or with an attempt and a value, an answer to a request."""

    call: Named
    attempt: int | None = None
    value: dict[str, Any] | None = None


class Claimed(Struct, frozen=True, tag=True):
    """A server gave a request to somebody."""

    call: Named
    attempt: int
    by: str


class Peeked(Struct, frozen=True, tag=True):
    """Somebody looked for what is another's."""

    who: str
    path: str
    status: int
    body: str


class Odd(Struct, frozen=True, tag=True):
    """An answer that nobody should ever get."""

    who: str
    asked: str
    status: int
    body: str


class Untold(Struct, frozen=True, tag=True):
    """Somebody asked again and again, long after all trouble was over, and was never told how it ended."""

    who: str
    asked: str


Event = Told | Taken | Claimed | Peeked | Odd | Untold


class Effect(Struct, frozen=True):
    """A tool did what it is for. `run` is made anew each time a tool starts."""

    call_id: str
    """As the tool knows it; at a worker, the request's id."""
    tool: str
    mark: str
    run: str
    process: str
    pid: int
    began: float
    caller: str = ""
    """Nobody, where the tool is not told."""
    attempt: int | None = None


class Row(Struct, frozen=True):
    """A call as the ledger has it."""

    seq: int
    subject: str
    family: str
    call_id: str
    tool: str
    on_lost: str
    queue: str
    session: str | None
    request: str | None
    input: bytes
    state: str
    code: str | None
    attempt: int
    losses: int
    holder: str | None
    started_at: float | None
    duration_ms: float | None
    value: bytes | None
    error: bytes | None

    COLUMNS: ClassVar[str] = (
        "seq, subject, family, call_id, reference, on_lost, queue, session, request, input, state, code, attempt, "
        "losses, holder, started_at, duration_ms, value, error"
    )

    @property
    def call(self) -> Named:
        return Named(self.subject, self.family, self.call_id)

    @property
    def mark(self) -> str:
        return str(msgspec.json.decode(self.input)["mark"])

    @property
    def is_open(self) -> bool:
        return self.state in ("PENDING", "PROCESSING")

    @property
    def ended(self) -> Ended:
        error = msgspec.json.decode(self.error) if self.error else {}
        return Ended(
            msgspec.json.decode(self.value) if self.value else None,
            error.get("message"),
            error.get("can_retry"),
            self.duration_ms,
        )


class History(Struct):
    """Everything that the checker is shown."""

    events: list[Event] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


class Recorder:
    """Writes down what happens, at once: in memory, and in a file to read when something was wrong."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self._file = path.open("ab", buffering=0)
        self._news = asyncio.Event()

    def add(self, event: Event) -> None:
        self.events.append(event)
        self._file.write(encode(event) + b"\n")
        self._news.set()

    async def after(self, more: int) -> None:
        """Until so many more things were just told."""
        wanted = len(self.events) + more
        while len(self.events) < wanted:
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        self._file.close()


def read_effects(path: Path) -> list[Effect]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Effect) for line in lines]
