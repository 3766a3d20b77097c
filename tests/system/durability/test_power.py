"""Power loss: what a ledger acknowledged is on the disk, and what is on the disk is whole."""

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw
import pytest
from msgspec.structs import replace

from tests.store import calls
from tests.store.calls import DONE, FAILED, LARGE, UNKNOWN, call
from tests.system.durability.power import Disk, Step, disk, everything, idle, nothing, some_of
from toolyard import Toolkit, ToolyardError
from toolyard.model.api_key import ApiKey
from toolyard.model.audit import AuditBlock, Mark
from toolyard.model.lifecycle import ENDED, State, WaitingFor
from toolyard.model.record import CallRecord, Ending
from toolyard.model.sealed import Sealed
from toolyard.model.worker import WorkerRecord
from toolyard.model.writes import Decision, WaitForAccount
from toolyard.store.contract import ApiKeyStore, AuditStore, SealedStore, Store
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import Filter, Note, NotedCalls, Retention, Rollup, StoreDown
from toolyard.testing import async_client

BLOCK = AuditBlock("new", 1, 1, 1.0, 1.0, b"mac", b"{}")
RETRY = replace(calls.RETRY, code="not_now")
RETENTION = Retention(calls_s=100.0, keys_s=100.0)
LONG_AGO, NOW = 1.0, 1_000_000.0
OFTEN = 24
"""Pages of the WAL after which it is copied into the ledger, so that cuts fall into that as well."""


@pytest.fixture
def power() -> Iterator[Disk]:
    with disk() as made:
        yield made


async def opened(path: Path, node: str = "node", now: float = NOW) -> Store:
    """On a clock that goes on a little whenever it is looked at."""
    path.parent.mkdir(exist_ok=True)
    connections: list[apsw.Connection] = []
    ticks = count()
    store = SqliteStore(str(path), node, RETENTION, now=lambda: now + next(ticks) / 1000)
    apsw.connection_hooks.append(connections.append)
    try:
        await store.open()
    finally:
        apsw.connection_hooks.remove(connections.append)
    for connection in connections:
        connection.wal_autocheckpoint(OFTEN)
    return store


def contents(path: Path) -> dict[str, Any]:
    """Every row of every table."""
    connection = apsw.Connection(str(path))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = {name: set(connection.execute(f"SELECT * FROM {name}")) for name in tables}
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


class Prepared(NamedTuple):
    """Numbers of calls for the writes to be about."""

    lost: int
    given_up: int
    running: int
    large: int
    retried: int
    handed_back: int
    cancelled: int
    asks: int
    asked: int
    unknown: int
    held: int


async def prepared(path: Path) -> tuple[Store, Prepared]:
    gone = await opened(path, "gone", LONG_AGO)
    old = await gone.begin(call("old", input=LARGE))
    await gone.finish(old.seq, 1, DONE)
    await gone.begin(call("overdue", total_s=1.0))
    lost = [(await gone.begin(call(call_id))).seq for call_id in ("lost", "given up")]
    await gone.close()
    del gone
    store = await opened(path)
    running = [(await store.begin(call(call_id))).seq for call_id in Prepared._fields[2:-1]]
    held = (await store.begin(call("held", waiting_for="approval"))).seq
    there = Prepared(*lost, *running, held)  # type: ignore[call-arg]
    await store.finish(there.unknown, 1, UNKNOWN)
    for session in ("to claim", "to beat", "to answer", "to leave"):
        await calls.in_session(store, calls.request(session=session), id=session)
    await store.beat([calls.beat(session="to leave")])
    await store.put_worker(WorkerRecord("default", "robot", "w1", b"[]"))
    await store.ask(there.asked, 1, "who", b"{}")
    await store.put_note(Note("k", "default", "ada", "old", b"{}"), 1000.0)
    await store.sealed.put(Sealed("k", "default", "ada", "old", b"sealed"))
    await store.api_keys.put(ApiKey("old", b"old", "default", "old"))
    await store.audit.add(replace(BLOCK, chain="old"), Mark("old", 1, b"mac", 1, 1.0, b"seal"))
    await store.listed(Filter("default"))  # comes after whatever the writer still had to do
    return store, there


WRITES: dict[str, Callable[[Store, Prepared], Awaitable[Any]]] = {
    "begin": lambda store, there: store.begin(call("new")),
    "begin_noted": lambda store, there: store.begin_noted(
        calls.call("noted", keyed=False, waiting_for="approval"), NotedCalls("k", ("noted",), 10.0)
    ),
    "record": lambda store, there: store.record([calls.ran("ran-1", 1), calls.ran("ran-2", 2)]),
    "finish": lambda store, there: store.finish(there.running, 1, DONE),
    "finish, with much": lambda store, there: store.finish(there.large, 1, replace(DONE, value=LARGE)),
    "finish, and free the key": lambda store, there: store.finish(there.retried, 1, RETRY),
    "hand_back": lambda store, there: store.hand_back(there.handed_back, 1),
    "cancel": lambda store, there: store.cancel(there.cancelled),
    "restart": lambda store, there: store.restart(there.lost, 1),
    "give_up": lambda store, there: store.give_up(there.given_up, 1, UNKNOWN),
    "resolve": lambda store, there: store.resolve(there.unknown, DONE),
    "expire": lambda store, there: store.expire(10),
    "sweep": lambda store, there: store.sweep(10),
    "put_rollups": lambda store, there: store.put_rollups([Rollup(1, "oxp", "Kit.Tool", "success", 1, 0.5, (1,))]),
    "claim": lambda store, there: store.claim(calls.wanted(session="to claim")),
    "beat": lambda store, there: store.beat([calls.beat(session="to beat")]),
    "answer": lambda store, there: store.answer(calls.answer(session="to answer")),
    "leave": lambda store, there: store.leave(calls.hand_back(session="to leave")),
    "create_session": lambda store, there: store.create_session(calls.session("new")),
    "add_turn": lambda store, there: store.add_turn(
        "to claim", [calls.request("r-1", "to claim"), calls.request("r-2", "to claim")]
    ),
    "put_worker": lambda store, there: store.put_worker(WorkerRecord("default", "robot", "w2", b"[]")),
    "beat_worker": lambda store, there: store.beat_worker("default", "robot", "w1"),
    "drop_worker": lambda store, there: store.drop_worker("default", "robot", "w1"),
    "ask": lambda store, there: store.ask(there.asks, 1, "new", b"{}"),
    "answer_questions": lambda store, there: store.answer_questions(there.asked, {"who": b"{}"}),
    "put_note": lambda store, there: store.put_note(Note("k", "default", "ada", "new", b"{}"), 10.0),
    "drop_note": lambda store, there: store.drop_note("k", "default", "ada", "old"),
    "add_call_events": lambda store, there: store.add_call_events([(there.asked, 1, b"{}")]),
    "add_note": lambda store, there: store.add_note(Note("k", "default", "ada", "added", b"{}"), 10.0),
    "sealed.put": lambda store, there: store.sealed.put(Sealed("k", "default", "ada", "new", b"sealed")),
    "sealed.drop": lambda store, there: store.sealed.drop("k", "default", "ada", "old"),
    "hold": lambda store, there: store.hold(WaitForAccount(there.running, 1, WaitingFor.AUTHORIZATION, 60.0)),
    "release_wait": lambda store, there: store.release_wait(Decision(there.held, WaitingFor.APPROVAL)),
    "api_keys.put": lambda store, there: store.api_keys.put(ApiKey("new", b"new", "default", "new")),
    "api_keys.revoke": lambda store, there: store.api_keys.revoke("old"),
    "audit.add": lambda store, there: store.audit.add(BLOCK, Mark("new", 1, b"mac", 1, 1.0, b"seal")),
    "audit.drop": lambda store, there: store.audit.drop(Mark("old", 1, b"mac", 1, 1.0, b"seal")),
}
"""Every method of a store that promises something."""

OTHERS = {
    "open", "close", "check", "find", "get", "row", "listed", "unstarted", "request", "requests", "session",
    "session_requests", "rollups", "merge", "superseded", "session_standing", "session_metadata",
    "glance", "request_standings",
    "events", "workers", "note_progress", "take_slot", "give_slot", "questions", "note",
    "call_events", "share_usage", "counted", "tell", "count_held", "full", "waiting_calls",
    "api_keys.listed", "api_keys.note_use", "audit.chains", "audit.chain", "audit.blocks",
    "sealed.get", "sealed.listed", "erase", "upstreams", "put_upstream", "drop_upstream", "go_back",
}  # fmt: skip
"""What promises nothing after a crash, or is no write; to erase is many writes, each of which may be made again. What
an upstream listed is listed again, and a restore that was ended is made again."""
PARTS = {"audit": AuditStore, "api_keys": ApiKeyStore, "sealed": SealedStore}


def test_every_write_of_the_contract_is_here() -> None:
    methods = {name for name in dir(Store) if not name.startswith("_")} - set(PARTS)
    methods |= {f"{part}.{name}" for part, store in PARTS.items() for name in dir(store) if not name.startswith("_")}
    assert methods == OTHERS | {name.partition(",")[0] for name in WRITES}


class Gate:
    """Stops the disk before it flushes a file of the ledger."""

    def __init__(self, ledger: Path) -> None:
        self._folder, self.reached, self.opened = ledger.parent, threading.Event(), threading.Event()

    def __call__(self, step: Step, path: Path) -> None:
        if step == "flush" and path.parent == self._folder:
            self.reached.set()
            self.opened.wait()

    def open(self) -> None:
        self.opened.set()
        self.reached.set()


@pytest.mark.parametrize("write", WRITES)
def test_nobody_is_told_of_a_write_before_it_is_flushed(write: str, power: Disk, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    async def scenario() -> None:
        store, there = await prepared(path)
        before, gate = contents(path), Gate(path)
        power.before = gate
        try:
            told = asyncio.ensure_future(WRITES[write](store, there))
            read = asyncio.ensure_future(store.listed(Filter("default")))
            reached = asyncio.ensure_future(asyncio.to_thread(gate.reached.wait))
            await asyncio.wait((told, read, reached), return_when=asyncio.FIRST_COMPLETED)
            assert gate.reached.is_set(), "there was no flush"
            for _ in range(10):
                await asyncio.sleep(0)  # whatever the loop has to do is done
            assert not told.done(), "the writer was told too early"
            assert not read.done(), "a reader was told too early"
            assert contents(power.power_cut(path, tmp_path / "early")) == before
        finally:
            gate.open()
        await asyncio.gather(told, read, reached)
        after = contents(power.power_cut(path, tmp_path / "told"))
        assert after == contents(path)
        assert after != before
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("write", WRITES)
def test_a_flush_that_fails_is_no_acknowledgement(write: str, power: Disk, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    def fail(step: Step, file: Path) -> None:
        if step == "flush" and file.parent == path.parent:
            raise apsw.IOError("the disk is broken")

    async def scenario() -> None:
        store, there = await prepared(path)
        before, power.before = contents(path), fail
        with pytest.raises(StoreDown):
            await WRITES[write](store, there)
        power.before = idle
        assert contents(power.power_cut(path, tmp_path / "failed")) == before
        await WRITES[write](store, there)
        after = contents(power.power_cut(path, tmp_path / "told"))
        assert after == contents(path)
        assert after != before
        await store.close()

    asyncio.run(scenario())


class Cuts:
    """Cuts the power before what SQLite does to the files of a ledger; of many writes in a row, before some."""

    def __init__(self, power: Disk, ledger: Path, folder: Path) -> None:
        self._power, self._ledger, self._folder, self._random = power, ledger, folder, Random(0)
        self.images: list[tuple[Path, int]] = []
        self.told = 0
        """How many writes were acknowledged until now; kept with each image."""
        self.files: set[str] = set()

    def __call__(self, step: Step, file: Path) -> None:
        if file.parent != self._ledger.parent or (step == "write" and self._random.random() > 0.15):
            return
        self.files.add(file.name)
        for survives in (nothing, everything, some_of(self._random)):
            image = self._power.power_cut(self._ledger, self._folder / f"cut-{len(self.images)}", survives)
            self.images.append((image, self.told))


def test_at_any_step_of_a_write_all_of_it_is_there_or_nothing(power: Disk, tmp_path: Path) -> None:
    path = tmp_path / "ledger" / "ledger.db"
    cuts = Cuts(power, path, tmp_path)
    states: list[dict[str, Any]] = []

    async def scenario() -> None:
        store, there = await prepared(path)
        states.append(contents(path))
        power.before = cuts
        for write in WRITES.values():
            await write(store, there)
            states.append(contents(path))
            cuts.told += 1
        await store.close()

    asyncio.run(scenario())
    power.before = idle
    for image, told in cuts.images:
        assert contents(image) in states[told : told + 2]
    assert cuts.files == {"ledger.db", "ledger.db-wal"}


def test_a_ledger_that_was_being_made_is_made_again(power: Disk, tmp_path: Path) -> None:
    path = tmp_path / "ledger" / "ledger.db"
    cuts = Cuts(power, path, tmp_path)

    async def scenario() -> None:
        power.before = cuts
        await (await opened(path)).close()
        power.before = idle
        for image, _ in cuts.images:
            store = await opened(image)
            assert (await store.begin(call("first"))).seq == 1
            await store.close()
            assert contents(image).keys() == contents(path).keys()

    asyncio.run(scenario())
    assert len(cuts.images) > 20


class Promises:
    """What a ledger has acknowledged, by writing it or by showing it."""

    def __init__(self) -> None:
        self.calls: dict[int, tuple[str, int, Ending | None]] = {}
        self.recorded: set[str] = set()

    def promise(self, seq: int, call_id: str, attempt: int, ending: Ending | None = None) -> None:
        _, least, ended = self.calls.get(seq, (call_id, attempt, ending))
        assert ended is None or ending is None or same(ended, ending), "a call has two outcomes"
        self.calls[seq] = (call_id, max(least, attempt), ended or ending)

    def shown(self, row: CallRecord) -> None:
        self.promise(row.seq, row.key.call_id, row.attempt, ending_of(row))

    async def hold(self, store: Store) -> list[CallRecord]:
        """The calls that are there, all that was promised among them."""
        rows = {row.seq: row for row in await store.listed(Filter("default", limit=1_000_000))}
        for seq, (call_id, attempt, ending) in self.calls.items():
            assert seq in rows, f"{call_id} is gone"
            found = ending_of(rows[seq])
            assert (rows[seq].key.call_id, rows[seq].attempt >= attempt) == (call_id, True)
            assert ending is None or (found is not None and same(ending, found)), f"{call_id} has lost its outcome"
        assert self.recorded <= {row.key.call_id for row in rows.values() if not row.keyed}
        for row in rows.values():
            taken = await store.find(row.key) if row.keyed else None
            has_key = taken is not None and taken.known is not None and taken.known.seq == row.seq
            assert has_key == (row.keyed and row.code != RETRY.code), f"the key of {row.key.call_id}"
        return list(rows.values())


def same(one: Ending, other: Ending) -> bool:
    return (one.state, one.code, one.value, one.error) == (other.state, other.code, other.value, other.error)


def ending_of(row: CallRecord) -> Ending | None:
    return Ending(row.state, row.code or "", 0.0, row.value, row.error) if row.state in ENDED else None


class PowerCut(Exception):
    """There is nothing more to be told."""


class Life:
    """Of a process whose machine loses its power when it was told of so many writes."""

    def __init__(self, store: Store, promises: Promises, cut_at: int, cut: Callable[[], object]) -> None:
        self._store, self._promises, self._left, self._cut = store, promises, cut_at, cut

    async def told(self, of: Awaitable[Any]) -> Any:
        answer = await of
        if self._left == 0:
            raise PowerCut
        self._left -= 1
        if self._left == 0:
            self._cut()
        return answer

    async def settle(self, found: list[CallRecord], random: Random) -> None:
        """What the life before left behind."""
        for lost in [row for row in found if row.state is State.PROCESSING]:
            number = await self.told(self._store.restart(lost.seq, lost.attempt))
            self._promises.promise(lost.seq, lost.key.call_id, number)
            if random.random() < 0.5:
                await self.finish(lost.seq, lost.key.call_id, number, replace(DONE, value=b"settled"))

    async def work(self, name: str) -> None:
        """Some calls with keys of its own, some with keys that others take as well, some without."""
        random = Random(name)
        for step in range(8):
            call_id = random.choice([f"{name}-{step}", f"shared-{random.randrange(40)}"])
            if random.random() < 0.2:
                await self.told(self._store.record([calls.ran(name, 1), calls.ran(f"{name}-{step}", 2)]))
                self._promises.recorded |= {name, f"{name}-{step}"}
                continue
            begun = await self.told(self._store.begin(call(call_id, input=b"x" * random.choice([10, 9_000]))))
            if begun.known:
                self._promises.shown(begun.known)
                continue
            self._promises.promise(begun.seq, call_id, 1)
            rivals = [replace(DONE, value=f"{name}-{step}-{random.random()}".encode()), FAILED, RETRY]
            endings = random.sample(rivals, random.randrange(3))
            await asyncio.gather(*(self.finish(begun.seq, call_id, 1, ending) for ending in endings))

    async def finish(self, seq: int, call_id: str, attempt: int, ending: Ending) -> None:
        winner = await self.told(self._store.finish(seq, attempt, ending))
        if winner is None:
            self._promises.promise(seq, call_id, attempt, ending)
        else:
            self._promises.shown(winner)

    async def live(self, name: str, found: list[CallRecord]) -> None:
        async with asyncio.TaskGroup() as group:
            for work in [self.settle(found, Random(name)), *(self.work(f"{name}-{number}") for number in range(8))]:
                group.create_task(until_the_cut(work))


async def until_the_cut(work: Awaitable[None]) -> None:
    with suppress(PowerCut):
        await work


@pytest.mark.parametrize("seed", range(10))
def test_everything_acknowledged_survives_one_power_cut_after_another(seed: int, power: Disk, tmp_path: Path) -> None:
    random, promises, copied = Random(seed), Promises(), [0]

    def look(step: Step, file: Path) -> None:
        copied[0] += step == "flush" and file.name == "ledger.db"

    async def life(number: int) -> None:
        here, there = (tmp_path / f"life-{number + more}" for more in (0, 1))
        survives = random.choice([nothing, everything, some_of(random)])
        store = await opened(here / "ledger.db", f"node-{number}")
        found = await promises.hold(store)
        cut_at = random.randrange(1, 60)
        cut = partial(power.power_cut, here / "ledger.db", there, survives)
        await Life(store, promises, cut_at, cut).live(f"{seed}-{number}", found)
        assert there.exists()
        shutil.copytree(there, tmp_path / f"looked-at-{number}")
        contents(tmp_path / f"looked-at-{number}" / "ledger.db")
        await store.close()

    async def lives() -> None:
        for number in range(6):
            await life(number)

    power.before = look
    asyncio.run(lives())
    assert len(promises.calls) > 30
    assert copied[0] > 6, "the WAL was never copied into the ledger"


@pytest.mark.parametrize("moment", ["in the tool", "at an answer"])
@pytest.mark.parametrize("seed", range(2))
def test_whoever_was_answered_is_answered_the_same_and_nothing_runs_twice(
    seed: int, moment: str, power: Disk, tmp_path: Path
) -> None:
    random, here, there = Random(seed), tmp_path / "here", tmp_path / "there"
    cut_at = random.randrange(10, 30)
    ran: list[str] = []
    answers: dict[str, Any] = {}
    before: dict[str, Any] = {}
    tools = Toolkit("Kit", version="1.0.0")

    def now(at: str, count: int) -> None:
        if at == moment and count == cut_at and not there.exists():
            power.power_cut(here / "ledger.db", there, some_of(random))
            before.update(ran=list(ran), answers=dict(answers))

    @tools.tool
    async def effect(text: str) -> str:
        """Runs once."""
        ran.append(text)
        now("in the tool", len(ran))
        return text * 100

    async def life(folder: Path) -> None:
        folder.mkdir(exist_ok=True)  # noqa: ASYNC240
        async with async_client(tools, store=f"sqlite:{folder / 'ledger.db'}", secret_key="5e" * 32) as client:

            async def call(number: int) -> None:
                try:
                    answer: Any = await client.call("Kit.Effect", {"text": f"{number}"}, call_id=f"{number}")
                except ToolyardError as error:
                    answer = error.message
                answers[f"{number}"] = answer
                now("at an answer", len(answers))

            await asyncio.gather(*(call(number) for number in range(40)))

    asyncio.run(life(here))
    ran.clear()
    answers.clear()
    asyncio.run(life(there))
    assert before["answers"].items() <= answers.items()
    assert not set(before["ran"]) & set(ran), "a tool ran again"
    assert len(before["ran"]) >= cut_at


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL", "FULL"])
def test_this_disk_forgets_what_is_not_flushed(synchronous: str, power: Disk, tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    connection = apsw.Connection(str(path))
    for sql in ("PRAGMA journal_mode=WAL", "CREATE TABLE kept (a)", f"PRAGMA synchronous={synchronous}"):
        connection.execute(sql).fetchall()
    connection.execute("INSERT INTO kept VALUES (1)")
    cuts = {"nothing": nothing, "everything": everything}
    found = {
        name: contents(power.power_cut(path, tmp_path / name, survives))["kept"] for name, survives in cuts.items()
    }
    connection.close()
    assert found == {"nothing": {(1,)} if synchronous == "FULL" else set(), "everything": {(1,)}}
