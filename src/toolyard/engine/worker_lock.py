"""Whether a worker's tool is as somebody approved it: the tool lock's word on definitions that came from workers.

Every node asks for every definition each time that it reads the workers' rows, so what the lock said is remembered by
the definition's digest, until the lock is another.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

from ..model.lock.lock import Bringer
from ..model.tool import Tool

MOST_KNOWN = 10_000


class ToolLock(Protocol):
    """The lock file's judgement of tools, as the engine asks for it (`server/tool_lock.py` has it)."""

    def revision(self) -> int:
        """Another number whenever it may judge otherwise than before."""
        ...

    def objection(self, tool: Tool, by: Bringer) -> str | None:
        """Why a tool that a worker or an upstream brings must not be served; None where it may be."""
        ...


class WorkerLock:
    """What the lock says of workers' definitions, each judged once."""

    def __init__(self, lock: ToolLock) -> None:
        self._lock = lock
        self._revision = lock.revision()
        self._known: dict[bytes, str | None] = {}

    def revision(self) -> int:
        """The lock's own."""
        return self._lock.revision()

    def objection(self, definition: bytes, made: Callable[[], Tool]) -> str | None:
        """`definition` is JSON, and `made` makes the tool of it."""
        revision, key = self._lock.revision(), sha256(definition).digest()
        if revision != self._revision or len(self._known) >= MOST_KNOWN:
            self._revision, self._known = revision, {}
        if key not in self._known:
            self._known[key] = self._lock.objection(made(), "worker")
        return self._known[key]
