"""What is SQLite's alone: a file that one process writes to."""

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from toolyard.model.errors import SetupError
from toolyard.model.lifecycle import State
from toolyard.model.record import Ending
from toolyard.store.contract import Store
from toolyard.store.sql_files import Migration, migrations
from toolyard.store.sqlite import writer
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.sqlite.writer import LARGE_CALL, Writer
from toolyard.store.values import Filter, SchemaTooNew, StoreDown, StoreInUse
from toolyard.supervision import Supervisor

from .calls import KEY, LARGE, call, ran, there
from .ledgers import RETENTION, TERMS, ManualClock, Opening

pytestmark = pytest.mark.kind("sqlite")


async def test_a_second_process_is_refused(store: Store, make_store: Opening) -> None:
    assert not store.shared
    with pytest.raises(StoreInUse, match="--store sqlite:other\\.db"):
        await make_store("b")


async def test_a_file_of_a_newer_toolyard_is_left_alone(store: Store, make_store: Opening, tmp_path: Path) -> None:
    await make_store.close(store)
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    connection.execute("PRAGMA user_version = 1000")
    connection.close()
    with pytest.raises(SchemaTooNew):
        await make_store("b")


async def test_a_file_of_an_older_toolyard_is_brought_up_to_date(make_store: Opening, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    for migration in migrations("sqlite")[:2]:
        connection.execute(migration.sql)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    store = await make_store()
    begun = await store.begin(call())
    assert await store.ask(begun.seq, 1, "sure", b"{}") is None
    assert there(await store.row(begun.seq)).waiting_for == "answer"


async def test_a_file_whose_migrations_cannot_all_be_applied_stays_as_it_was(
    make_store: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*migrations("sqlite"), Migration(1000, "CREATE TABLE half (a); CREATE TABLE calls (a);")]
    monkeypatch.setattr("toolyard.store.sql_files.migrations", lambda store: broken)
    with pytest.raises(SetupError, match="calls already exists"):
        await make_store()
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == []
    assert connection.execute("PRAGMA user_version").fetchall() == [(0,)]
    connection.close()
    monkeypatch.undo()
    await (await make_store()).begin(call())


async def test_a_file_that_lost_its_newest_calls_to_an_older_toolyard_gives_none_of_their_numbers(
    make_store: Opening, tmp_path: Path
) -> None:
    """What is left of them, a key that is still taken, says how far their numbers went."""
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    for migration in migrations("sqlite")[:6]:
        connection.execute(migration.sql)
    connection.execute("PRAGMA user_version = 6")
    connection.execute("INSERT INTO keys VALUES ('default', 'bob', 'oxp', 'old', 41, x'00', 1e12)")
    connection.execute("INSERT INTO notes VALUES ('hold', 'default', 'bob', 'oxp 00', CAST('42' AS BLOB), 1e12)")
    connection.close()
    assert (await (await make_store()).begin(call())).seq > 42


async def test_a_file_that_is_no_ledger_is_refused(make_store: Opening, tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(SetupError):
        await make_store()


async def test_nothing_that_was_kept_out_of_a_row_is_left_behind(
    store: Store, make_store: Opening, clock: ManualClock, tmp_path: Path
) -> None:
    begun = await store.begin(call(input=LARGE))
    await store.cancel(begun.seq)
    await clock.advance(RETENTION.calls_s + 1)
    assert await store.sweep(10) == 1
    await make_store.close(store)
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    assert connection.execute("SELECT count(*) FROM blobs").fetchall() == [(0,)]
    connection.close()


async def test_a_ledger_in_memory_works_alike_and_leaves_no_file(
    make_store: Opening, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:", "a", RETENTION, TERMS, now=clock)
    await store.open()
    try:
        await store.begin(call())
        assert await store.find(KEY) is not None
    finally:
        await store.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_large", [False, True])
async def test_nothing_of_an_erased_user_is_left_in_the_file_unless_that_is_large(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_large: bool,
) -> None:
    """Rows of many sizes, of which some become longer when they end: SQLite moves others to make room."""
    if is_large:
        monkeypatch.setattr(writer, "MOST_REWRITTEN", 0)
    for number in range(60):
        user, text = ("uma", b"of-uma ") if number % 2 else ("vic", b"of-vic ")
        input = b'"%s"' % (text * (5, 50, 200, 500)[number // 2 % 4])
        begun = await store.begin(call(f"k{number}", user_id=user, input=input))
        await store.finish(begun.seq, 1, Ending(State.COMPLETE, "success", 1.5, value=input, extra=input))
    assert await store.erase(None, "uma") == 30
    file, log = (tmp_path / "ledger.db").read_bytes(), (tmp_path / "ledger.db-wal").read_bytes()
    assert (b"of-vic" in file, b"of-uma" in log) == (True, False)
    if not is_large:
        assert b"of-uma" not in file
    assert ("too large to be rewritten" in caplog.text) == is_large
    assert len(await store.listed(Filter(None, limit=100))) == 30


async def test_a_ledger_is_one_by_whichever_name_it_is_opened(make_store: Opening, tmp_path: Path) -> None:
    await make_store()
    os.symlink(tmp_path / "ledger.db", tmp_path / "link.db")
    with pytest.raises(StoreInUse):
        await SqliteStore(str(tmp_path / "link.db"), "b", RETENTION, TERMS).open()


async def test_what_cannot_be_written_is_not_recorded_and_the_check_says_so(
    make_store: Opening, tmp_path: Path
) -> None:
    store = await make_store()
    connection = apsw.Connection(str(tmp_path / "ledger.db"))
    connection.execute("ALTER TABLE keys RENAME TO away")
    connection.execute("ALTER TABLE blobs RENAME TO blobs_away")
    with pytest.raises(StoreDown):
        await store.begin(call())
    with pytest.raises(StoreDown):
        await store.check()
    connection.execute("ALTER TABLE away RENAME TO keys")
    connection.execute("ALTER TABLE blobs_away RENAME TO blobs")
    connection.close()
    await store.check()
    assert (await store.begin(call())).seq > 0


async def test_nobody_else_can_lock_a_ledger(store: Store, make_store: Opening, tmp_path: Path) -> None:
    """Whoever may open the file of the lock may hold it, and then no server starts."""
    (lock,) = tmp_path.glob("*.lock")  # noqa: ASYNC240
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.chmod(0o644)
    await make_store.instead_of(store, "b")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600, "one that was there before is mended"


async def test_writes_that_wait_for_another_program_fail_together(make_store: Opening, tmp_path: Path) -> None:
    """And not one after the other, each after its own wait: twenty would be a minute and a half."""
    connection, other = apsw.Connection(str(tmp_path / "a.db")), apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("CREATE TABLE t (n)")
    tries: list[str] = []
    connection.exec_trace = lambda cursor, sql, values: tries.append(sql) or True  # type: ignore[func-returns-value]
    other.execute("BEGIN IMMEDIATE")
    writer = Writer(connection, Supervisor())
    writes = [writer.submit(lambda cursor: cursor.execute("INSERT INTO t VALUES (1)")) for _ in range(20)]
    failed = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(each, apsw.BusyError) for each in failed)
    assert tries.count("BEGIN IMMEDIATE") < 10
    other.execute("ROLLBACK")
    await writer.submit(lambda cursor: cursor.execute("INSERT INTO t VALUES (2)"))
    await writer.close()
    assert other.execute("SELECT n FROM t").fetchall() == [(2,)]


async def test_what_is_submitted_in_one_turn_of_the_event_loop_is_one_transaction(
    make_store: Opening, tmp_path: Path
) -> None:
    """The thread takes them at the end of the turn, though it could have begun before: it is awake, as the turns before
    this one have only just been written."""
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("CREATE TABLE t (n)")
    statements: list[str] = []
    connection.exec_trace = lambda cursor, sql, values: statements.append(sql) or True  # type: ignore[func-returns-value]
    writer = Writer(connection, Supervisor())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            statements.clear()
            insert = [writer.submit(lambda cursor: cursor.execute("INSERT INTO t VALUES (1)")) for _ in range(500)]
            await asyncio.gather(*insert)
            assert statements.count("COMMIT") == 1
    finally:
        sys.setswitchinterval(interval)
        await writer.close()


async def test_a_file_that_was_removed_or_replaced_is_noticed(store: Store, tmp_path: Path) -> None:
    """What is written to it then is lost, whatever SQLite says."""
    ledger = tmp_path / "ledger.db"
    await store.check()
    kept = ledger.rename(tmp_path / "kept.db")
    for _ in range(2):
        with pytest.raises(StoreDown, match="cannot record") as down:
            await store.check()
        assert "was removed or replaced" in str(down.value.developer_message)
        ledger.touch()  # another in its place
    kept.rename(ledger)
    await store.check()


async def test_a_large_write_is_the_last_of_its_transaction(make_store: Opening, tmp_path: Path) -> None:
    """Nobody waits for more than one of them."""
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("CREATE TABLE t (n)")
    statements: list[str] = []
    connection.exec_trace = lambda cursor, sql, values: statements.append(sql[:6]) or True  # type: ignore[func-returns-value]
    writer = Writer(connection, Supervisor())
    sizes = (1, LARGE_CALL + 1, 1, LARGE_CALL + 1, LARGE_CALL + 1, 1, 1)
    insert = [writer.submit(lambda cursor: cursor.execute("INSERT INTO t VALUES (1)"), size) for size in sizes]
    await asyncio.gather(*insert)
    await writer.close()
    assert [len(part.split()) for part in " ".join(statements).split("COMMIT")][:-1] == [3, 3, 2, 3]


async def test_large_calls_that_are_written_behind_have_a_transaction_each(store: SqliteStore) -> None:
    statements: list[str] = []

    def trace(cursor: apsw.Cursor, sql: str, values: Any) -> bool:
        statements.append(sql)
        return True

    await store._writer.write(lambda cursor: setattr(cursor.connection, "exec_trace", trace))
    rows = [ran(f"large{number}", 1, {"text": "x" * (LARGE_CALL + 1)}) for number in range(3)]
    assert await store.record([ran("small", 1), *rows]) == 0
    assert statements.count("BEGIN IMMEDIATE") == 3
