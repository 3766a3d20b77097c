"""`toolyard backup`: a copy of the ledger, made while a server writes to it or while none does.

A SQLite ledger is read beside its server: in WAL mode another process may, and neither waits for the other. The server
has nothing to do with it, and a copy can be made even of a ledger whose server does not answer any more. Of PostgreSQL
the database's own tools make copies.
"""

import os
import shlex
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from ..model.clock import SYSTEM_CLOCK, Clock
from ..model.errors import SetupError, SourcePlace
from ..server.ledger import is_shared, ledger_file, open_store, ring_of
from ..server.settings.table import Settings
from ..store.inspection import Holdings
from ..store.sqlite import copies
from ..store.sqlite.copies import CopyNotes
from ..trust.sealing.ring import KeyRing

SIGNED = "backup"
"""What the ring signs in a copy, so that a restore can tell whether it has the same key."""


class KeyPlace(StrEnum):
    """Where the key of a copied ledger is."""

    INSIDE = "inside"
    """In the copy."""
    FILE = "file"
    """In the key file, which is not in the copy."""
    MISSING = "missing"
    """In a key file that is not there. A ledger that has signed or sealed nothing has none."""
    SETTING = "setting"
    """In the setting `secret_key`."""


class Backup(Struct, frozen=True):
    """A copy that was made."""

    file: Path
    bytes: int
    ledger: Path
    made_at: float
    """Whatever was acknowledged before this moment is in it."""
    holdings: Holdings
    key: KeyPlace
    key_file: Path | None


def back_up(settings: Settings, file: Path, *, with_key: bool, clock: Clock = SYSTEM_CLOCK) -> Backup:
    """Makes a copy of the ledger that the settings name, in a file that is not there yet. Raises SetupError."""
    ledger = file_of(settings, dump_command(settings, file))
    if not ledger.exists():
        raise SetupError("there is no ledger here; name it with --store", SourcePlace(str(ledger)))
    if file.exists():
        raise SetupError("this file is there already; name another", SourcePlace(str(file)))
    ring = open_store(settings, clock)[1]
    place, made_at = _key_place(ring, with_key=with_key), clock.now()
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with copies.reading(ledger) as connection:
            copies.copy(connection, draft)
        held = copies.mark_copy(draft, _notes(ring, place, made_at))
        os.rename(draft, file)
        copies.flush(file.absolute().parent)
    finally:
        copies.discard(draft)
    return Backup(file, file.stat().st_size, ledger, made_at, held, place, ring.file)


def file_of(settings: Settings, instead: str) -> Path:
    """The file of the ledger. `instead` is the command for a ledger in PostgreSQL. Raises SetupError."""
    if is_shared(settings):
        ring = ring_of(settings)
        where = "the setting secret_key" if ring.file is None else f"in {ring.file}"
        raise SetupError(
            f"this ledger is in PostgreSQL, whose own tool does that: {instead} (the key is {where}: keep it apart, "
            "for without it nobody reads what is sealed)"
        )
    path = ledger_file(settings.store)
    if path is None:
        raise SetupError(f"there is no file of {settings.store}; name a ledger with --store sqlite:FILE")
    return path


def dump_command(settings: Settings, file: Path) -> str:
    """How a copy of a ledger in PostgreSQL is made."""
    return shlex.join(["pg_dump", "--format=custom", "--no-owner", f"--file={file}", without_password(settings.store)])


def restore_commands(settings: Settings, file: Path, now: float) -> list[str]:
    """How a copy of a ledger in PostgreSQL is brought back: all of it or nothing, in a database of its own. In the one
    that is there, tables would stay that a newer toolyard has made since, and no toolyard could make them again."""
    parts = urlsplit(without_password(settings.store))
    name = parts.path.lstrip("/") or parts.username or ""
    aside = name + datetime.fromtimestamp(now, UTC).strftime("_before_%Y%m%dT%H%M%SZ")
    moved = [f"ALTER DATABASE {_quoted(name)} RENAME TO {_quoted(aside)}", f"CREATE DATABASE {_quoted(name)}"]
    beside = urlunsplit(parts._replace(path="/postgres"))
    return [
        shlex.join(["psql", "--set=ON_ERROR_STOP=1", f"--dbname={beside}", *(f"--command={each}" for each in moved)]),
        shlex.join(["pg_restore", "--no-owner", "--single-transaction", f"--dbname={urlunsplit(parts)}", str(file)]),
    ]


def _quoted(name: str) -> str:
    """A name in SQL. In an address it may be escaped."""
    return '"' + unquote(name).replace('"', '""') + '"'


def without_password(url: str) -> str:
    """An address as it may be shown."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "postgresql://…"
    who, at, host = parts.netloc.rpartition("@")
    return urlunsplit(
        (
            parts.scheme,
            who.partition(":")[0] + at + host,
            parts.path,
            "" if "password" in parts.query else parts.query,
            "",
        )
    )


def signed_at(made_at: float) -> bytes:
    """What the ring signs in a copy that was made then."""
    return repr(made_at).encode()


def _key_place(ring: KeyRing, *, with_key: bool) -> KeyPlace:
    """Raises SetupError where the key file is wanted in the copy and cannot be."""
    if ring.file is None:
        if with_key:
            raise SetupError("--with-key: the key is the setting secret_key, and not a file; keep it with the settings")
        return KeyPlace.SETTING
    if ring.is_missing:
        if with_key:
            raise SetupError("--with-key: there is no key file", SourcePlace(str(ring.file)))
        return KeyPlace.MISSING
    return KeyPlace.INSIDE if with_key else KeyPlace.FILE


def _notes(ring: KeyRing, place: KeyPlace, made_at: float) -> CopyNotes:
    if place is KeyPlace.MISSING:
        return CopyNotes(made_at)
    content = ring.file.read_text(encoding="ascii") if place is KeyPlace.INSIDE and ring.file is not None else None
    return CopyNotes(made_at, ring.sign(SIGNED, signed_at(made_at)), content)
