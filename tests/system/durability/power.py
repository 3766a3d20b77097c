"""A disk whose power can be cut.

A VFS that hands everything on to the real one, and remembers of every file what a flush made durable and what was only
written since. After a cut the former is there; of the latter whatever the disk got round to: nothing, all of it, or any
of the sectors. A name is durable once a flush of the folder came after it: SQLite flushes the folder with the first
flush of a new file, and with a delete that asks for it. Another delete may be undone by the cut.

The shared memory of a WAL (`-shm`) does not pass through here: it is memory, and gone.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

import apsw
from typing_extensions import Buffer

SECTOR = 512
KEPT = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
"""Files that are there to survive. Others are scratch."""

Step = Literal["write", "truncate", "flush", "delete"]
Before = Callable[[Step, Path], None]


def idle(step: Step, file: Path) -> None:
    """Nothing is to happen before a step."""


class Write(NamedTuple):
    offset: int
    data: bytes

    def to(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> Iterator["Write"]:
        """As the disk writes it: each sector by itself."""
        at, end = self.offset, self.offset + len(self.data)
        while at < end:
            until = min(end, at - at % SECTOR + SECTOR)
            yield Write(at, self.data[at - self.offset : until - self.offset])
            at = until


class Truncate(NamedTuple):
    size: int

    def to(self, content: bytearray) -> None:
        del content[self.size :]


class Rename(NamedTuple):
    """A name that came, went, or stands for another file now."""


Survives = Callable[[Write | Truncate | Rename], Iterable[Write | Truncate | Rename]]
"""What the disk got round to, of a change that was not flushed."""


def nothing(change: Write | Truncate | Rename) -> Iterable[Write | Truncate | Rename]:
    return ()


def everything(change: Write | Truncate | Rename) -> Iterable[Write | Truncate | Rename]:
    return (change,)


def some_of(random: Random) -> Survives:
    """Any of the sectors, be they of one write or of many."""

    def survives(change: Write | Truncate | Rename) -> Iterable[Write | Truncate | Rename]:
        parts = change.sectors() if isinstance(change, Write) else (change,)
        return [part for part in parts if random.random() < 0.5]

    return survives


class Content:
    """A file's: what is durable of it, and what was done to it since."""

    def __init__(self, durable: bytes) -> None:
        self.durable = bytearray(durable)
        self.pending: list[Write | Truncate] = []

    def flush(self) -> None:
        for change in self.pending:
            change.to(self.durable)
        self.pending.clear()

    def after(self, survives: Survives) -> bytes:
        found = bytearray(self.durable)
        for change in self.pending:
            for part in survives(change):
                if not isinstance(part, Rename):
                    part.to(found)
        return bytes(found)


class Disk(apsw.VFS):
    """What SQLite writes to while it is registered. `before` is called ahead of every step, in the thread that takes
    it, and may raise: then the step failed. What a failed flush was to make durable is never written."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.before: Before = idle
        self._lock = threading.Lock()
        self._names: dict[Path, Content] = {}
        self._durable_names: dict[Path, Content] = {}
        super().__init__("power", base, makedefault=True)

    def power_cut(self, ledger: Path, folder: Path, survives: Survives = nothing) -> Path:
        """Writes the ledger's files into an empty folder as they would be found now; returns where the ledger is."""
        with self._lock:
            found = {path.name: self._found(path, survives) for path in self._files(ledger)}
        folder.mkdir()
        for name, content in found.items():
            if content is not None:
                (folder / name).write_bytes(content)
        return folder / ledger.name

    def _files(self, ledger: Path) -> list[Path]:
        known = self._names | self._durable_names
        return sorted(path for path in known if path.parent == ledger.parent and path.name.startswith(ledger.name))

    def _found(self, path: Path, survives: Survives) -> bytes | None:
        content, now = self._durable_names.get(path), self._names.get(path)
        if content is not now and survives(Rename()):
            content = now
        return None if content is None else content.after(survives)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None or not flags[0] & KEPT:
            return apsw.VFSFile(self.base, name, flags)
        path = Path(name if isinstance(name, str) else name.filename())
        was_there = path.exists()
        file = DiskFile(self, path, name, flags)
        with self._lock:
            if path not in self._names:
                self._names[path] = Content(path.read_bytes())
                if was_there:
                    self._durable_names[path] = self._names[path]
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        path = Path(filename)
        self.before("delete", path)
        super().xDelete(filename, syncdir)
        with self._lock:
            self._names.pop(path, None)
            if syncdir:
                self._durable_names = dict(self._names)

    def changed(self, path: Path, change: Write | Truncate) -> None:
        with self._lock:
            self._names[path].pending.append(change)

    def dropped(self, path: Path) -> None:
        with self._lock:
            self._names[path].pending.clear()

    def flushed(self, path: Path) -> None:
        with self._lock:
            self._names[path].flush()
            if self._durable_names.get(path) is not self._names[path]:
                self._durable_names = dict(self._names)


class DiskFile(apsw.VFSFile):
    """A file on it. It is not flushed in truth: nobody will cut the power of this machine."""

    def __init__(self, disk: Disk, path: Path, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._disk, self._path = disk, path
        super().__init__(disk.base, name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:
        self._disk.before("write", self._path)
        super().xWrite(data, offset)
        self._disk.changed(self._path, Write(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.before("truncate", self._path)
        super().xTruncate(newsize)
        self._disk.changed(self._path, Truncate(newsize))

    def xSync(self, flags: int) -> None:
        try:
            self._disk.before("flush", self._path)
        except apsw.IOError:
            self._disk.dropped(self._path)
            raise
        self._disk.flushed(self._path)


@contextmanager
def disk() -> Iterator[Disk]:
    """Every ledger that is opened meanwhile is on this disk."""
    made = Disk(apsw.vfs_names()[0])
    try:
        yield made
    finally:
        made.unregister()
