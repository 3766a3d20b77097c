"""The audit log is whole: in order, across restarts and outages, and nothing is missing without a word."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from tests.unpacked import unpacked
from toolyard.store.contract import Store
from toolyard.store.postgres.store import PostgresStore
from toolyard.store.values import StoreDown
from toolyard.trust.audit import log as writing
from toolyard.trust.audit import retention
from toolyard.trust.audit.chain import Broken, verify
from toolyard.trust.audit.entry import LONGEST_LINE, Entry, line_of
from toolyard.trust.audit.retention import drop_old
from toolyard.trust.sealing.fingerprints import Fingerprints

from .logs import RING, STRANGER, Flaky, Log, audit, entry, in_file, read


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "TRY_AGAIN_S", 0.005)


def outcomes(log: Log) -> list[str | None]:
    return [each.get("code") or each.get("call") for each in log.entries]


# --- what is in it -------------------------------------------------------------------------------


def unused(tool: str, user_id: str | None, input: object) -> bytes:
    raise AssertionError("the entry has a fingerprint already")


def test_an_entry_is_a_line_with_short_names_and_without_what_it_does_not_say() -> None:
    made = entry(1, user_id="u", address="10.0.0.1", fingerprint="fp", outcome="success", ms=1.5, input={"a": 1})
    expected = (
        b'{"at":101.0,"kind":"call","tenant":"default","sub":"ada","user":"u","from":"10.0.0.1","call":"call-1",'
        b'"fp":"fp","input":{"a":1},"code":"success","ms":1.5}'
    )
    assert line_of(made, unused, with_input=True) == expected
    assert line_of(made, unused, with_input=False) == expected.replace(b'"input":{"a":1},', b"")


@pytest.mark.parametrize("wrong", [{"input": "x" * LONGEST_LINE}, {"input": object()}, {"request_id": "\ud800" * 9000}])
def test_an_entry_is_never_left_out_because_of_what_is_in_it(wrong: dict[str, object]) -> None:
    line = line_of(entry(1, rule="all", **wrong), Fingerprints(RING).of, with_input=True)
    assert len(line) < LONGEST_LINE
    assert line.startswith(b'{"at":101.0,"kind":"call","tenant":"default","sub":"ada","call":"call-1",')
    assert b'"rule":"all"' in line


def test_the_input_is_in_the_file_only_by_setting(tmp_path: Path) -> None:
    async def with_input(store: Store, *, wanted: bool) -> Log:
        log = audit(store, with_input=wanted)
        await log.open()
        log.add(entry(1, input={"text": "canary-5d1f"}))
        await log.close()
        return await read(store)

    for wanted in (False, True):
        log = in_file(tmp_path / f"{wanted}.db", lambda store: with_input(store, wanted=wanted))  # noqa: B023
        assert (b"canary-5d1f" in b"".join(block.entries for block in log.blocks)) is wanted


# --- writing -------------------------------------------------------------------------------------


def test_a_log_begins_goes_on_after_a_restart_and_says_so(tmp_path: Path) -> None:
    async def once(store: Store) -> Log:
        log = audit(store)
        await log.open()
        for number in range(3):
            log.add(entry(number))
        await log.close()
        return await read(store)

    in_file(tmp_path / "a.db", once)
    log = in_file(tmp_path / "a.db", once)
    log.verify()
    calls = ["call-0", "call-1", "call-2"]
    assert outcomes(log) == ["began", *calls, "closed", "continued", *calls, "closed"]


def test_entries_are_written_by_themselves_soon_and_many_at_once(tmp_path: Path) -> None:
    async def soon(store: Store) -> None:
        log = audit(store)
        await log.open()
        for number in range(writing.MOST_IN_A_BLOCK * 2 + 200):
            log.add(entry(number))
        deadline = time.monotonic() + 5
        while len((await read(store)).entries) < writing.MOST_IN_A_BLOCK * 2 + 201:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert [block.count for block in (await read(store)).blocks] == [
            writing.MOST_IN_A_BLOCK,
            writing.MOST_IN_A_BLOCK,
            201,
        ]
        await log.close()
        (await read(store)).verify()

    in_file(tmp_path / "a.db", soon)


def test_what_was_awaited_is_in_the_file_before_it_is_answered(tmp_path: Path) -> None:
    async def strict(store: Store) -> None:
        log = audit(store, strict=True)
        await log.open()
        reader = apsw.Connection(str(tmp_path / "a.db"), flags=apsw.SQLITE_OPEN_READONLY)
        for number in range(20):
            log.add(entry(number))
            await log.written()
            (newest,) = reader.execute("SELECT entries FROM audit ORDER BY number DESC LIMIT 1").fetchone() or (b"",)
            assert f'"call":"call-{number}"'.encode() in unpacked(newest)
        await log.written()
        await asyncio.gather(*(_added_and_written(log, number) for number in range(300)))
        assert len((await read(store)).blocks) < 60, "those who wait together share a block"
        await log.close()

    in_file(tmp_path / "a.db", strict)


async def _added_and_written(log: writing.Audit, number: int) -> None:
    log.add(entry(number))
    await log.written()


def test_entries_wait_while_the_store_is_away(tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture) -> None:
    async def outage(store: Store) -> None:
        flaky = Flaky(store)
        log = audit(flaky)
        await log.open()
        await log.written()
        flaky.away = True
        for number in range(700):
            log.add(entry(number))
        with pytest.raises(StoreDown):
            await log.written()
        await asyncio.sleep(0.03)
        flaky.away, flaky.forgets = False, True
        log.add(entry(700))
        with pytest.raises(StoreDown):
            await log.written()
        await log.written()
        await log.close()
        found = await read(store)
        found.verify()
        assert outcomes(found) == ["began", *(f"call-{number}" for number in range(701)), "closed"]

    with caplog.at_level(logging.WARNING, "toolyard.audit"):
        in_file(tmp_path / "a.db", outage)
    assert caplog.messages[0].startswith("the audit log waits for its store")
    assert caplog.messages[1] == "the audit log is written again"


@pytest.mark.parametrize("with_input", [False, True])
def test_an_entry_is_what_it_was_when_it_was_added(tmp_path: Path, quick: None, with_input: bool) -> None:
    """Also where its store is away for long, and what it was made of is something else by then."""

    async def outage(store: Store) -> None:
        flaky = Flaky(store)
        log = audit(flaky, with_input=with_input)
        await log.open()
        flaky.away = True
        with pytest.raises(StoreDown):
            await log.written()
        late = entry(1, tool="A.B@1.0.0", input={"a": 1})
        log.add(late)
        late.tool, late.fingerprint, late.input = "C.D@1.0.0", None, {"a": 2}
        flaky.away = False
        await log.close()
        written = (await read(store)).entries[1]
        assert written["fp"] == Fingerprints(RING).of("A.B", None, {"a": 1}).hex()
        assert (written["tool"], written.get("input")) == ("A.B@1.0.0", {"a": 1} if with_input else None)

    in_file(tmp_path / "a.db", outage)


def test_entries_are_put_by_several_who_have_no_log_open(tmp_path: Path) -> None:
    async def verbs(store: Store) -> None:
        for number in range(3):
            entries = [entry(4 * number + n) for n in range(4)]
            await asyncio.gather(*(writing.put(store.audit, RING, writing.VERBS, each) for each in entries))
        found = await read(store, writing.VERBS)
        found.verify()
        assert len(found.entries) == 12

    in_file(tmp_path / "a.db", verbs)


def test_what_did_not_fit_is_counted_in_the_log(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writing, "MOST_WAITING", 10)

    async def overflow(store: Store) -> None:
        flaky = Flaky(store)
        log = audit(flaky)
        await log.open()
        await log.written()
        flaky.away = True
        for number in range(25):
            log.add(entry(number))
        assert not log.has_room
        with pytest.raises(StoreDown):
            await log.written()
        flaky.away = False
        async with asyncio.timeout(5):
            while not log.has_room:
                await asyncio.sleep(0.01)
        await log.written()
        await log.close()
        found = await read(store)
        found.verify()
        (lost,) = [each for each in found.entries if each["kind"] == "lost"]
        assert lost == {"at": 100.0, "kind": "lost", "code": "lost", "n": 15}
        assert len(found.entries) == 1 + 10 + 1 + 1

    in_file(tmp_path / "a.db", overflow)
    assert "15 entries are missing in the audit log: its store was away for too long" in caplog.messages


def test_a_stop_without_a_store_says_what_is_missing(
    tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop(store: Store) -> None:
        flaky = Flaky(store)
        log = audit(flaky)
        await log.open()
        await log.written()
        flaky.away = True
        log.add(entry())
        await log.close()
        log.add(entry(1))
        flaky.away = False
        await log.open()
        await log.close()
        found = await read(store)
        found.verify()
        assert outcomes(found) == ["began", "call-0", "closed", "continued", "closed", "lost"]

    in_file(tmp_path / "a.db", stop)
    assert "2 entries are missing in the audit log: the server stopped without its store" in caplog.messages


def test_a_block_that_was_stored_after_all_is_not_counted_twice(tmp_path: Path, quick: None) -> None:
    async def stored_unknown(store: Store) -> None:
        flaky = Flaky(store)
        log = audit(flaky)
        await log.open()
        await log.written()
        log.add(entry())
        flaky.forgets = True
        with pytest.raises(StoreDown):
            await log.written()
        flaky.away = True
        await log.close()
        flaky.away = False
        await log.open()
        await log.close()
        found = await read(store)
        found.verify()
        assert outcomes(found) == ["began", "call-0", "closed", "continued", "closed"]

    in_file(tmp_path / "a.db", stored_unknown)


def test_a_chain_that_somebody_else_wrote_to_goes_on_after_that(tmp_path: Path) -> None:
    async def two(store: Store) -> None:
        one, other = audit(store), audit(store, now=lambda: 200.0)
        await one.open()
        await other.open()
        for number, log in enumerate((one, other, one, other)):
            log.add(entry(number))
            await log.written()
        await one.close()
        await other.close()
        found = await read(store)
        found.verify()
        assert len(found.entries) == 8

    in_file(tmp_path / "a.db", two)


def test_large_entries_make_smaller_blocks(tmp_path: Path) -> None:
    async def large(store: Store) -> None:
        log = audit(store, with_input=True)
        await log.open()
        for number in range(100):
            log.add(entry(number, input="x" * 60_000))
        await log.close()
        found = await read(store)
        found.verify()
        assert max(len(block.entries) for block in found.blocks) < 1.2 * 2**20
        assert len(found.entries) == 102

    in_file(tmp_path / "a.db", large)


# --- what is old ---------------------------------------------------------------------------------


async def _ten_blocks(store: Store) -> None:
    """One at 100, 101, … 109, after one at 100 that says so."""
    log = audit(store)
    await log.open()
    for number in range(10):
        log.add(entry(number))
        await log.written()
    await log.written()


def test_what_is_old_goes_and_the_rest_is_still_whole(tmp_path: Path) -> None:
    async def dropping(store: Store) -> None:
        await _ten_blocks(store)
        whole = await read(store)
        assert await drop_old(store.audit, RING, 104.0) == 4
        left = await read(store)
        left.verify()
        assert left.blocks == whole.blocks[4:]
        assert [block.last_at for block in left.blocks] == [104.0, 105.0, 106.0, 107.0, 108.0, 109.0]
        assert await drop_old(store.audit, RING, 104.0) == 0
        assert whole.chain.head is not None
        left.verify((whole.chain.head,))
        assert await drop_old(store.audit, RING, 1000.0) == 6
        (await read(store)).verify((whole.chain.head,))
        log = audit(store)
        await log.open()
        await log.close()
        again = await read(store)
        again.verify((whole.chain.head,))
        assert outcomes(again) == ["continued", "closed"]

    in_file(tmp_path / "a.db", dropping)


def test_a_server_drops_what_is_old_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FIRST_S", 0.01)

    async def dropping(store: Store) -> None:
        await _ten_blocks(store)
        log = audit(store, now=lambda: 1000.0, retention_s=895.0)
        await log.open()
        deadline = time.monotonic() + 5
        while (await read(store)).blocks[0].last_at < 105.0:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await log.close()
        left = await read(store)
        left.verify()
        assert [block.last_at for block in left.blocks][:2] == [105.0, 106.0]

    in_file(tmp_path / "a.db", dropping)


def test_evidence_is_not_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    in_file(tmp_path / "a.db", _ten_blocks)
    with apsw.Connection(str(tmp_path / "a.db")) as connection:
        connection.execute("DROP TRIGGER audit_stays; UPDATE audit SET entries = x'7b7d' WHERE number = 3")
    assert in_file(tmp_path / "a.db", lambda store: drop_old(store.audit, RING, 1000.0)) == 0
    assert "chain main, block 3" in caplog.text


def test_an_accident_changes_nothing(tmp_path: Path) -> None:
    in_file(tmp_path / "a.db", _ten_blocks)
    with apsw.Connection(str(tmp_path / "a.db")) as connection:
        for statement in ("UPDATE audit SET count = 7", "DELETE FROM audit", "DELETE FROM audit WHERE number = 1"):
            with pytest.raises(apsw.ConstraintError, match="audit log"):
                connection.execute(statement)
    in_file(tmp_path / "a.db", read).verify()


# --- kill -9 -------------------------------------------------------------------------------------

ENDLESS = """
import asyncio, sys
from tests.trust.audit.logs import audit, entry
from toolyard.store.sqlite.store import SqliteStore

async def run():
    store = SqliteStore(sys.argv[1], "a")
    await store.open()
    log = audit(store)
    await log.open()
    number = 0
    while True:
        for _ in range(37):
            number += 1
            log.add(entry(number))
        await log.written()
        print(number, flush=True)
asyncio.run(run())
"""


def test_a_killed_server_leaves_a_whole_chain_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "a.db", 0
    for turn in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
        )
        assert child.stdout is not None
        newest = [int(child.stdout.readline()) for _ in range(10 + 7 * turn)][-1]
        time.sleep(0.003 * turn)
        os.kill(child.pid, signal.SIGKILL)
        newest = max([newest, *(int(line) for line in child.stdout.read().split("\n")[:-1] if line)])
        child.wait()
        child.stdout.close()
        acknowledged += newest
        log = in_file(path, read)
        log.verify()
        assert len([each for each in log.entries if each["kind"] == "call"]) >= acknowledged
        assert len([each for each in log.entries if each["kind"] == "start"]) == turn + 1


# --- PostgreSQL ----------------------------------------------------------------------------------


def test_each_node_has_a_chain_of_its_own(postgres_url: str) -> None:
    async def nodes() -> None:
        stores = [PostgresStore(postgres_url, name) for name in ("one", "two")]
        logs = [audit(store, store.node) for store in stores]
        for store, log in zip(stores, logs, strict=True):
            await store.open()
            await log.open()
        for number in range(1100):
            logs[number % 2].add(entry(number))
        await asyncio.gather(*(log.written() for log in logs))
        await asyncio.gather(*(log.close() for log in logs))
        for name in ("one", "two"):
            found = await read(stores[0], name)
            found.verify()
            assert len(found.entries) == 552
            assert (outcomes(found)[0], outcomes(found)[-1]) == ("began", "closed")
            with pytest.raises(Broken):
                verify(STRANGER, found.chain, found.blocks)
        assert await drop_old(stores[1].audit, RING, 1e9) > 2
        for name in ("one", "two"):
            (await read(stores[0], name)).verify()
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(nodes())


def test_an_entry_is_in_the_database_before_it_is_answered(postgres_url: str) -> None:
    async def strict() -> None:
        store, other = PostgresStore(postgres_url, "one"), PostgresStore(postgres_url, "two")
        await store.open()
        await other.open()
        log = audit(store, "one", strict=True)
        await log.open()
        for number in range(10):
            log.add(entry(number))
            await log.written()
            assert outcomes(await read(other, "one"))[-1] == f"call-{number}"
        await log.close()
        await store.close()
        await other.close()

    asyncio.run(strict())


def test_an_entry_has_no_member_for_a_secret() -> None:
    assert not {"token", "secret", "password", "authorization"} & set(Entry.__struct_fields__)
