"""`toolyard restore`: a ledger goes back to the moment at which a copy was made.

With SQLite all of it is done in a draft beside the ledger, which then takes the ledger's place in one step: whoever
ends this in the middle has the old ledger or the new one. What was there is moved aside, with its `-wal`, and stays a
ledger that can be restored. A ledger that other tools bring back, such as PostgreSQL's, is settled after it (`settle`).

Nobody knows what became of the calls that had not ended in the copy: they may have been claimed, approved, answered
since. So each of them is settled before anybody serves the ledger (`Store.go_back`).
"""

import asyncio
import itertools
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ..lazy import load
from ..model.clock import SYSTEM_CLOCK, Clock
from ..model.errors import SetupError, SourcePlace
from ..server.console.login_sessions import CODE, SESSION
from ..server.ledger import is_shared, open_store
from ..server.settings.table import Settings
from ..store.contract import Store
from ..store.inspection import Holdings
from ..store.sqlite import copies
from ..store.sqlite.copies import CopyNotes
from ..store.sqlite.file import FileMark, give_to_owner_of, lock, mark_of, refuse_part, wal_of
from ..store.sqlite.store import SqliteStore
from ..store.values import StoreInUse, WentBack
from ..trust.audit.entry import AuditKind, Entry
from ..trust.audit.key_check import hold_to_ledger
from ..trust.audit.log import MAIN, VERBS, put
from ..trust.sealing.ring import KeyRing, ring_from
from .backup import SIGNED, file_of, restore_commands, signed_at, without_password

SAID = "toolyard restore"
"""How the audit log names it."""


class RestoreOptions(Struct, frozen=True):
    """What an operator says about a restore."""

    revoke_keys: bool = False
    incomplete: bool = False
    """Also a ledger whose `-wal` is missing."""
    without_key: bool = False
    """Also where the key of the copy is lost."""


class Restored(Struct, frozen=True):
    """What was done."""

    ledger: Path | str
    """Where it is, as it may be shown."""
    made_at: float
    is_exact: bool
    """Whether everything up to that moment is in it. Otherwise it is the time of the newest thing that was found."""
    holdings: Holdings
    """After that: keys that were revoked now are counted as such."""
    calls: WentBack
    revoked: int
    aside: Path | None = None
    """Where the ledger is that was there."""
    key_file: Path | None = None
    """Where the key of the copy was written to."""
    key_aside: Path | None = None
    """Where the key file is that was there instead."""


def restore(settings: Settings, file: Path, options: RestoreOptions, clock: Clock = SYSTEM_CLOCK) -> Restored:
    """Puts the copy in the place of the ledger that the settings name. Raises SetupError, and has then changed
    nothing."""
    if is_shared(settings):
        steps = ["stop all nodes", *restore_commands(settings, file, clock.now()), "toolyard restore --settle"]
        raise SetupError(f"this ledger is in PostgreSQL, whose own tools do that: {'; then: '.join(steps)}")
    ledger = file_of(settings, "").resolve()
    if not file.is_file():
        raise SetupError("there is no such file", SourcePlace(str(file)))
    if not (options.incomplete and mark_of(file) == FileMark.OPEN):
        refuse_part(file)
    return asyncio.run(_Restore(settings, ledger, options, clock).do(file))


def settle(settings: Settings, options: RestoreOptions, clock: Clock = SYSTEM_CLOCK) -> Restored:
    """Completes the restore of a ledger that other tools have brought back: does what a restore does to calls and keys,
    and says so in the audit log. It can be done twice. Raises SetupError, StoreInUse, StoreDown."""
    path = None if is_shared(settings) else file_of(settings, "")
    if path is not None and not path.exists():
        raise SetupError("there is no ledger here; name it with --store", SourcePlace(str(path)))
    return asyncio.run(_settled(settings, path, options, clock))


async def _settled(settings: Settings, path: Path | None, options: RestoreOptions, clock: Clock) -> Restored:
    store, ring = open_store(settings, clock)
    await store.open()
    try:
        if not options.without_key:
            await _hold_to_key(ring, store, None)
        _, newest = await _counted(settings, path)
        calls, revoked = await _brought_up(store, options, None)
        await _say(settings, options, store, ring, clock)
        holdings, _ = await _counted(settings, path)
    finally:
        await store.close()
    return Restored(path or without_password(settings.store), newest, False, holdings, calls, revoked)


async def _counted(settings: Settings, path: Path | None) -> tuple[Holdings, float]:
    """How much a ledger has of each thing, and the time of the newest. `path` is its file, where it has one."""
    if path is None:
        counted: tuple[Holdings, float] = await load("postgres_holdings")(settings.store)
        return counted
    with copies.reading(path) as connection:
        return copies.holdings(connection), copies.newest(connection)


async def _brought_up(store: Store, options: RestoreOptions, last_number: int | None) -> tuple[WentBack, int]:
    """Settles what is in a copy, and revokes its keys if that is wanted. What became of its calls, and how many keys
    were revoked. First the calls: whoever is refused, because a server has the ledger, has changed nothing."""
    calls = await store.go_back((CODE, SESSION), last_number)
    names = [key.name for key in await store.api_keys.listed() if key.revoked is None and options.revoke_keys]
    for name in names:
        await store.api_keys.revoke(name)
    return calls, len(names)


async def _say(settings: Settings, options: RestoreOptions, store: Store, ring: KeyRing, clock: Clock) -> None:
    """In the audit log, if there is one."""
    chain = VERBS if store.shared else MAIN
    if settings.audit != "off" and not options.without_key and not ring.is_missing:
        await put(store.audit, ring, chain, Entry(clock.now(), AuditKind.ADMIN, tool=SAID))


class _Restore(Struct, frozen=True):
    """One restore of a ledger in a file."""

    settings: Settings
    ledger: Path
    options: RestoreOptions
    clock: Clock

    async def do(self, file: Path) -> Restored:
        try:
            held = await lock(self.ledger)
        except StoreInUse as used:
            raise StoreInUse("a server has this ledger; stop it, and then run this again", used.place) from None
        draft = self.ledger.with_name(f"{self.ledger.name}.restoring")
        try:
            notes, newest = _drafted(file, draft)
            calls, revoked = await self._complete(draft, notes, self._last_number(file, draft))
            with copies.read(draft) as connection:
                holdings = copies.holdings(connection)
            for made in (held.fileno(), draft):
                give_to_owner_of(self._model, made)
            suffix = self._suffix()
            key_file, key_aside = self._put_key(notes, suffix)
            aside = _swapped(draft, self.ledger, suffix)
        finally:
            copies.discard(draft)
            held.close()
        is_exact, moment = notes is not None, newest if notes is None else notes.made_at
        return Restored(self.ledger, moment, is_exact, holdings, calls, revoked, aside, key_file, key_aside)

    async def _complete(self, draft: Path, notes: CopyNotes | None, last: int | None) -> tuple[WentBack, int]:
        """Brings the draft up to date, holds the key to it, settles it, and says so in its audit log."""
        ring, store = self._ring(notes), SqliteStore(str(draft), self.clock.new_id(), now=self.clock.now)
        await store.open()
        try:
            if not self.options.without_key:
                await _hold_to_key(ring, store, notes)
            calls, revoked = await _brought_up(store, self.options, last)
            await _say(self.settings, self.options, store, ring, self.clock)
        finally:
            await store.close()
        return calls, revoked

    def _last_number(self, file: Path, draft: Path) -> int | None:
        """That the ledger which is replaced has given to a call. None of them is to mean another call afterwards: a
        person may have one at hand, to approve it by. None where it does not tell: it cannot be read, is the copy
        itself, or has not come as far as the copy and so is another ledger."""
        if not self.ledger.exists() or self.ledger.samefile(file):
            return None
        with suppress(SetupError), copies.read(self.ledger) as there, copies.read(draft) as here:
            last = copies.last_number(there)
            return last if last is not None and last >= (copies.last_number(here) or 0) else None
        return None

    def _ring(self, notes: CopyNotes | None) -> KeyRing:
        """The keys that the restored ledger will be served with."""
        in_copy = notes.key_file.split() if notes is not None and notes.key_file is not None else None
        return ring_from(self.settings.secret_key or in_copy, self._key_file, self.ledger)

    @property
    def _model(self) -> Path:
        """Whose owner the restored files are to have: the ledger that is there, or else its folder."""
        return self.ledger if self.ledger.exists() else self.ledger.parent

    @property
    def _key_file(self) -> Path:
        return self.ledger.with_suffix(".key")

    def _suffix(self) -> str:
        """What is put behind the names of files that are moved aside. None of them is there yet."""
        moment = datetime.fromtimestamp(self.clock.now(), UTC).strftime(".before-%Y%m%dT%H%M%SZ")
        suffixes = itertools.chain([moment], (f"{moment}-{number}" for number in itertools.count(2)))
        moved = (self.ledger, self._key_file)
        return next(each for each in suffixes if not any(_aside(path, each).exists() for path in moved))

    def _put_key(self, notes: CopyNotes | None, suffix: str) -> tuple[Path | None, Path | None]:
        """Writes the key file that is in the copy, unless it is here already. Where it is, and where the one is that
        was there."""
        if self.settings.secret_key or notes is None or notes.key_file is None:
            return None, None
        file, aside = self._key_file, None
        if file.exists():
            if file.read_text(encoding="ascii", errors="replace").split() == notes.key_file.split():
                return None, None
            aside = _aside(file, suffix)
            os.rename(file, aside)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            give_to_owner_of(self._model, opened.fileno())
            opened.write(notes.key_file)
            opened.flush()
            os.fsync(opened.fileno())
        return file, aside


def _drafted(file: Path, draft: Path) -> tuple[CopyNotes | None, float]:
    """Makes the draft, a ledger like any other. What the copy says of itself, and the time of the newest thing in
    it."""
    with copies.read(file) as connection:
        copies.check(connection, file)
        notes, newest = copies.notes_of(connection), copies.newest(connection)
        copies.copy(connection, draft)
    copies.unmark_copy(draft)
    return notes, newest


async def _hold_to_key(ring: KeyRing, store: Store, notes: CopyNotes | None) -> None:
    """Raises SetupError where the key that is here is not the one of the copy."""
    go_on = "if it is lost, restore with --without-key, and then: toolyard secrets new-key"
    if notes is not None and notes.signature is not None:
        where = None if ring.file is None else SourcePlace(str(ring.file))
        if ring.is_missing:
            raise SetupError(
                "the key file is not in this copy, and it is not here either; put it here first: without it nobody "
                f"reads what is sealed; {go_on}",
                where,
            )
        if notes.signature not in ring.signatures(SIGNED, signed_at(notes.made_at)):
            raise SetupError(
                f"the key here is not the one that this copy was made with; put that one here; {go_on}", where
            )
    await hold_to_ledger(ring, store)
    if ring.refusal is not None:
        raise ring.refusal


def _swapped(draft: Path, ledger: Path, suffix: str) -> Path | None:
    """Puts the draft in the ledger's place. Where the ledger is that was there."""
    copies.flush(draft)
    aside = _aside(ledger, suffix) if ledger.exists() else None
    if aside is not None:
        os.link(ledger, aside)  # under both names: at no moment is there no ledger, for a server to begin an empty one
        if wal_of(ledger).exists():
            # Whoever is killed now has a ledger that is marked as open and lacks this: no server takes it for whole.
            os.rename(wal_of(ledger), wal_of(aside))
    ledger.with_name(f"{ledger.name}-shm").unlink(missing_ok=True)
    os.replace(draft, ledger)
    copies.flush(ledger.parent)
    return aside


def _aside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
