"""The lock file, `tools.lock`, and what a server does about tools that are not as it says.

The file has the definitions that somebody approved (`model/lock`). A definition that changes afterwards, in a library
or on a worker, would be read by models, and matched by rules, as if it were the approved one.
"""

import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..model.errors import DefinitionError, SetupError, SourcePlace
from ..model.lock import lock as model
from ..model.lock.lock import Bringer, Lock, LockDifference, LockedTool, difference
from ..model.tool import Tool
from .settings.table import Settings

_log = logging.getLogger("toolyard.lock")
AGAIN = "bring it back as it was, or delete it first, then approve the tools anew with toolyard lock"
HOW = 'run toolyard lock to approve what is there now, or set lock = "warn" to serve it all the same'


def read_lock(path: Path) -> Lock:
    """The lock in a file. Raises SetupError for a file that is not there or no lock."""
    try:
        return model.read(path.read_bytes())
    except OSError as error:
        advice = "; make it with toolyard lock" if isinstance(error, FileNotFoundError) else ""
        raise SetupError(f"the lock cannot be read: {error.strerror}{advice}", _place(path)) from None
    except ValueError as error:
        raise SetupError(f"{error}; {AGAIN}", _place(path)) from None


def write_lock(path: Path, tools: Iterable[LockedTool]) -> None:
    """Writes a lock file, which is whole from the first moment that it is there: a server may read it at any time.
    Raises SetupError."""
    text = model.write({each.reference: each for each in tools})
    try:
        # In the same folder: `os.replace` is one step only within a file system.
        descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(made, 0o644)  # mkstemp makes it for its owner alone, and a lock is no secret
        os.replace(made, path)
    except OSError as error:
        raise SetupError(f"the lock cannot be written: {error.strerror}", _place(path)) from None


class LockGate:
    """Holds tools against the lock file, which is read again when it changes. A file that is gone or broken changes
    nothing: what was approved last counts. `warns`: differences are only logged. `allows_new`: tools of which the lock
    has no version at all are served."""

    def __init__(self, path: Path, *, warns: bool, allows_new: bool) -> None:
        self._path, self._warns, self._allows_new = path, warns, allows_new
        self._stamp = _stamp(path)  # before it is read: a change in between is noticed at the next look
        self._lock = read_lock(path)
        self._revision = 1

    def revision(self) -> int:
        """The number of the lock, which is raised by each new one: whoever remembers what the lock said asks again when
        it has changed. Looks at the file each time."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._lock = read_lock(self._path)
            except SetupError as error:
                _log.error("%s; the lock that was read before still counts", error)
            else:
                self._revision += 1
                _log.info("%s was read again", self._path)
        return self._revision

    def objection(self, tool: Tool, by: Bringer) -> str | None:
        """Why a tool that a worker or an upstream brings must not be served. None: it may. What is only warned about is
        in the log."""
        found = self._difference(tool, by)
        if found is None:
            return None
        _log.warning("%s, %s", f"Tool of the {by} differs from the lock" if self._warns else "Not served", found)
        return None if self._warns else f"{found}\nWhoever runs the server can approve it: toolyard lock"

    def check(self, tools: Iterable[Tool]) -> None:
        """Holds the server's own tools against the lock. Raises DefinitionError with all that is not as it was."""
        found = [each for each in map(self._difference, tools) if each is not None]
        if found and self._warns:
            _log.warning("Tools differ from the lock:\n%s", "\n".join(map(str, found)))
        elif found:
            told = "\n".join(["the tools are not those that were locked", *map(str, found), f"What to do: {HOW}"])
            raise DefinitionError(told, _place(self._path))

    def _difference(self, tool: Tool, by: Bringer | None = None) -> LockDifference | None:
        found = difference(self._lock, model.locked(tool, by))
        return None if found is None or (found.is_new and self._allows_new) else found


class NoLock:
    """Takes the place of a `LockGate` where there is no lock file: everything is served."""

    def revision(self) -> int:
        return 0

    def objection(self, tool: Tool, by: Bringer) -> str | None:
        return None

    def check(self, tools: Iterable[Tool]) -> None:
        """There is nothing to hold tools against."""


def gate_of(settings: Settings) -> LockGate | NoLock:
    """What the settings want tools held against. Raises SetupError for a lock file that is named and cannot be read."""
    if settings.lock_file is None or settings.lock == "off":
        return NoLock()
    return LockGate(Path(settings.lock_file), warns=settings.lock == "warn", allows_new=settings.lock_allows_new)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What shows that a file is another than before, without reading it; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _place(path: Path) -> SourcePlace:
    return SourcePlace(str(path))
