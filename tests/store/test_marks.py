"""A ledger's file says whether it is whole: one whose `-wal` is missing is not opened, and every other is."""

import shutil
from pathlib import Path

import apsw
import pytest

from toolyard.model.errors import SetupError
from toolyard.store.sqlite import copies
from toolyard.store.sqlite.copies import CopyNotes
from toolyard.store.sqlite.file import PRAGMAS, FileMark, close, mark_of, opened, wal_of


def written(path: Path, notes: int = 1) -> apsw.Connection:
    """A ledger that is open, in which something stands."""
    connection = opened(path)
    for number in range(notes):
        connection.execute("INSERT INTO nodes VALUES (?, 0)", (f"{number}{'x' * 4000}",))
    return connection


def nodes(connection: apsw.Connection) -> int:
    return len(connection.execute("SELECT name FROM nodes").fetchall())


@pytest.mark.parametrize("notes", [0, 1, 3000], ids=["nothing yet", "a little", "past a checkpoint"])
def test_a_ledger_without_what_was_written_last_is_not_opened(notes: int, tmp_path: Path) -> None:
    path, part = tmp_path / "a.db", tmp_path / "part.db"
    connection = written(path, notes)
    shutil.copy(path, part)
    with pytest.raises(SetupError, match=r"part\.db-wal, with what was written last, is not beside it"):
        opened(part)
    with pytest.raises(SetupError, match="part of a ledger"), copies.reading(part):
        pass
    close(connection)
    assert mark_of(part) == FileMark.OPEN
    assert not wal_of(part).exists(), "looking at it does not make it look whole"


def test_a_ledger_is_opened_as_a_killed_server_left_it(tmp_path: Path) -> None:
    connection = written(tmp_path / "a.db")
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"a.db{ending}", tmp_path / f"b.db{ending}")
    again = opened(tmp_path / "b.db")
    assert nodes(again) == 1
    close(again)
    close(connection)


def test_a_ledger_that_was_closed_is_one_file(tmp_path: Path) -> None:
    close(written(tmp_path / "a.db"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db"]
    assert mark_of(tmp_path / "a.db") == FileMark.CLOSED
    again = opened(tmp_path / "a.db")
    assert nodes(again) == 1
    close(again)


def test_a_ledger_that_cannot_be_marked_as_closed_keeps_its_wal(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = written(path)
    connection.execute("PRAGMA query_only = 1")
    close(connection)
    assert (mark_of(path), wal_of(path).exists()) == (FileMark.OPEN, True)
    again = opened(path)
    assert nodes(again) == 1
    close(again)


def test_a_ledger_that_is_closed_while_somebody_reads_keeps_its_wal(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = written(path)
    with copies.reading(path) as reader:
        assert nodes(reader) == 1
        close(connection)
        assert (mark_of(path), wal_of(path).exists()) == (FileMark.OPEN, True)
    again = opened(path)
    assert nodes(again) == 1
    close(again)


def test_whoever_reads_last_leaves_the_wal(tmp_path: Path) -> None:
    """As after `kill -9` of a server while a backup reads."""
    path = tmp_path / "a.db"
    connection = written(path)
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"a.db{ending}", tmp_path / f"b.db{ending}")
    close(connection)
    with copies.reading(tmp_path / "b.db") as reader:
        assert nodes(reader) == 1
    close(opened(tmp_path / "b.db"))


def test_a_ledger_of_a_toolyard_without_marks_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    connection.close()
    assert mark_of(path) == 0
    again = opened(path)
    assert mark_of(path) == FileMark.OPEN
    close(again)


def test_a_copy_beside_the_wal_of_another_ledger_is_not_opened(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    connection = written(path)
    copies.copy(connection, copy)
    assert copies.mark_copy(copy, CopyNotes(7.0)).calls == 0
    written(path, 0)
    shutil.copy(copy, tmp_path / "b.db")
    shutil.copy(wal_of(path), wal_of(tmp_path / "b.db"))
    with pytest.raises(SetupError, match=r"b\.db-wal beside it is of another ledger"):
        opened(tmp_path / "b.db")


def test_a_copy_is_not_opened_before_it_is_restored(tmp_path: Path) -> None:
    connection = written(tmp_path / "a.db")
    copies.copy(connection, tmp_path / "copy.db")
    copies.mark_copy(tmp_path / "copy.db", CopyNotes(7.0))
    with pytest.raises(SetupError, match=r"toolyard restore .*copy\.db"):
        opened(tmp_path / "copy.db")
    assert mark_of(tmp_path / "copy.db") == FileMark.COPY
    copies.unmark_copy(tmp_path / "copy.db")
    again = opened(tmp_path / "copy.db")
    assert (nodes(again), copies.notes_of(again)) == (1, None)
    close(again)
    assert mark_of(tmp_path / "copy.db") == FileMark.CLOSED


def test_the_wal_of_a_ledger_that_is_gone_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = written(path)
    wal = wal_of(path).read_bytes()
    close(connection)
    path.unlink()
    wal_of(path).write_bytes(wal)
    with pytest.raises(SetupError, match="the ledger is not there"):
        opened(path)
    assert wal_of(path).read_bytes() == wal


def test_a_damaged_file_is_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    close(written(path, 50))
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):  # not the header
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(SetupError, match=r"damaged|cannot be"), copies.reading(path) as connection:
        copies.check(connection, path)
