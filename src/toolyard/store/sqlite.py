"""The ledger in a SQLite file: WAL, a flush for every commit, one process that writes.

Because one process writes, its writer thread may look before it leaps: a SELECT and the INSERT after it are one step.
"""

import fcntl
import io
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import apsw
import msgspec

from ..model.errors import Place, SetupError
from ..model.lifecycle import State
from ..model.record import CallRecord, Ending, Key, NewCall, Ran
from .contract import Begun, Filter, StoreDown, StoreInUse
from .migrations import missing
from .writer import Writer

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=2000", "journal_size_limit=67108864")

COLUMNS = (
    "seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id, trace_id, "
    "sealed, on_lost, state, code, waiting_for, attempt, holder, created_at, started_at, finished_at, duration_ms, "
    "value, error"
)
SELECT = f"SELECT {COLUMNS} FROM calls"
KEY = "tenant = ? AND subject = ? AND family = ? AND call_id = ?"

BEGIN = (
    "INSERT INTO calls (tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id, "
    "trace_id, sealed, on_lost, state, attempt, holder, created_at, started_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'PROCESSING', 1, ?, ?, ?)"
)
RECORD = (
    "INSERT INTO calls (tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id, "
    "trace_id, on_lost, state, code, attempt, created_at, finished_at, duration_ms, value, error) "
    "VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, x'', ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)"
)
FINISH = (
    "UPDATE calls SET state = ?, code = ?, finished_at = ?, duration_ms = ?, value = ?, error = ?, sealed = NULL, "
    "waiting_for = NULL WHERE seq = ? AND attempt = ? AND state = 'PROCESSING'"
)
TAKE_KEY = (
    "INSERT INTO keys (tenant, subject, family, call_id, seq, fingerprint, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
RELEASE_KEY = "DELETE FROM keys WHERE seq = ? AND (tenant, subject, family, call_id) IN " \
    "(SELECT tenant, subject, family, call_id FROM calls WHERE seq = ?)"  # fmt: skip
RESTART = (
    "UPDATE calls SET attempt = attempt + 1, holder = ?, started_at = ? "
    "WHERE seq = ? AND attempt = ? AND state = 'PROCESSING' AND holder != ?"
)


class SqliteStore:
    """Implements `contract.Store`."""

    def __init__(
        self,
        path: str,
        node: str,
        *,
        retention_s: float,
        key_ttl_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path, self._node, self._now = Path(path), node, now
        self._retention_s, self._key_ttl_s = retention_s, max(key_ttl_s, retention_s)

    async def open(self) -> None:
        self._lock = _lock(self._path)
        try:
            connection = apsw.Connection(str(self._path))
            connection.set_busy_timeout(5000)
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            _migrate(connection, self._path)
        except apsw.Error as error:
            self._lock.close()
            raise SetupError(f"the ledger cannot be opened: {error}", Place(str(self._path))) from error
        self._writer = Writer(connection)

    async def close(self) -> None:
        await self._writer.close()
        self._lock.close()

    async def begin(self, call: NewCall) -> Begun:
        def write(cursor: apsw.Cursor) -> Begun:
            known = _known(cursor, call.key) if call.keyed else None
            if known is not None:
                return known
            key, now = call.key, self._now()
            cursor.execute(BEGIN, (
                key.tenant, key.subject, key.family, key.call_id, call.keyed, call.wire, call.tool, call.reference,
                call.input, call.fingerprint, call.user_id, call.trace_id, call.sealed, call.on_lost,
                self._node, now, now,
            ))  # fmt: skip
            seq = cursor.connection.last_insert_rowid()
            if call.keyed:
                cursor.execute(TAKE_KEY, (*_values(key), seq, call.fingerprint, now + self._key_ttl_s))
            return Begun(seq)

        return await self._write(write)

    async def record(self, calls: Sequence[Ran]) -> None:
        now = self._now()
        await self._write(lambda cursor: cursor.executemany(RECORD, [_ran(ran, now) for ran in calls]))

    async def finish(self, seq: int, attempt: int, ending: Ending) -> CallRecord | None:
        def write(cursor: apsw.Cursor) -> CallRecord | None:
            values = (
                ending.state,
                ending.code,
                self._now(),
                ending.duration_ms,
                ending.value,
                ending.error,
                seq,
                attempt,
            )
            cursor.execute(FINISH, values)
            if cursor.connection.changes() == 0:
                return _row(cursor, "seq = ?", (seq,))
            if ending.releases_key:
                cursor.execute(RELEASE_KEY, (seq, seq))
            return None

        return await self._write(write)

    async def find(self, key: Key) -> Begun | None:
        return await self._write(lambda cursor: _known(cursor, key))

    async def get(self, tenant: str, subject: str, call_id: str) -> CallRecord | None:
        where = "tenant = ? AND subject = ? AND call_id = ? ORDER BY seq DESC LIMIT 1"
        return await self._write(lambda cursor: _row(cursor, where, (tenant, subject, call_id)))

    async def listed(self, wanted: Filter) -> list[CallRecord]:
        conditions: dict[str, Any] = {
            "tenant = ?": wanted.tenant,
            "subject = ?": wanted.subject,
            "state = ?": wanted.state,
            "tool = ?": wanted.tool,
            "seq < ?": wanted.before,
        }
        given = {condition: value for condition, value in conditions.items() if value is not None}
        sql = f"{SELECT} WHERE {' AND '.join(given)} ORDER BY seq DESC LIMIT {wanted.limit:d}"
        return await self._write(lambda cursor: [_call(row) for row in cursor.execute(sql, tuple(given.values()))])

    async def lost(self) -> list[CallRecord]:
        sql = f"{SELECT} WHERE state = 'PROCESSING' AND holder != ? ORDER BY seq"
        return await self._write(lambda cursor: [_call(row) for row in cursor.execute(sql, (self._node,))])

    async def restart(self, seq: int, attempt: int) -> int | None:
        def write(cursor: apsw.Cursor) -> int | None:
            cursor.execute(RESTART, (self._node, self._now(), seq, attempt, self._node))
            return attempt + 1 if cursor.connection.changes() else None

        return await self._write(write)

    async def sweep(self, limit: int) -> int:
        def write(cursor: apsw.Cursor) -> int:
            old = "SELECT seq FROM calls WHERE finished_at < ? ORDER BY finished_at LIMIT ?"
            cursor.execute(f"DELETE FROM calls WHERE seq IN ({old})", (self._now() - self._retention_s, limit))
            removed: int = cursor.connection.changes()
            cursor.execute("DELETE FROM keys WHERE expires_at < ?", (self._now(),))
            return removed

        return await self._write(write)

    async def _write(self, write: Callable[[apsw.Cursor], T]) -> T:
        try:
            return await self._writer.submit(write)
        except apsw.Error as error:
            raise StoreDown(
                "The server cannot record calls now", retry_after_ms=1000, developer_message=f"the ledger: {error}"
            ) from error


def _known(cursor: apsw.Cursor, key: Key) -> Begun | None:
    taken = cursor.execute(f"SELECT seq, fingerprint FROM keys WHERE {KEY}", _values(key)).fetchone()
    if taken is None:
        return None
    call = _row(cursor, "seq = ?", (taken[0],))
    return Begun(0, known=call, tombstone=None if call else taken[1])


def _row(cursor: apsw.Cursor, where: str, values: tuple[Any, ...]) -> CallRecord | None:
    row = cursor.execute(f"{SELECT} WHERE {where}", values).fetchone()
    return _call(row) if row else None


def _call(row: tuple[Any, ...]) -> CallRecord:
    seq, tenant, subject, family, call_id, keyed, *rest = row
    made = CallRecord(seq, Key(tenant, subject, family, call_id), bool(keyed), *rest)
    made.state = State(made.state)
    return made


def _values(key: Key) -> tuple[str, str, str, str]:
    return key.tenant, key.subject, key.family, key.call_id


def _lock(path: Path) -> IO[bytes]:
    """One process writes to a file. The lock goes with the process, however that ends."""
    if str(path) == ":memory:":
        return io.BytesIO()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock").open("a+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StoreInUse(
            "another process writes to this ledger; give this one its own with --store sqlite:other.db",
            Place(str(path)),
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()).encode())
    lock.flush()
    return lock


def _migrate(connection: apsw.Connection, path: Path) -> None:
    (applied,) = connection.execute("PRAGMA user_version").fetchone() or (0,)
    for migration in missing("sqlite", applied, str(path)):
        with connection:
            connection.execute(migration.sql)
            connection.execute(f"PRAGMA user_version = {migration.number:d}")


def _ran(ran: Ran, now: float) -> tuple[Any, ...]:
    """A row of RECORD. Made for every call on the fast lane, so there is nothing between."""
    command, run, outcome = ran
    caller, tool, error = run.caller, run.tool, outcome.error
    return (
        caller.tenant, caller.subject, command.family, run.call_id, command.wire, command.tool_id, tool.reference,
        _encode(run.input), caller.user_id, run.trace_id, tool.on_lost,
        "COMPLETE" if error is None else "ERROR", "success" if error is None else error.code,
        now, now, outcome.duration_ms,
        None if outcome.value is None else bytes(outcome.value), None if error is None else _encode(error.members()),
    )  # fmt: skip
