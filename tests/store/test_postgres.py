"""What PostgreSQL alone has to stand: nodes that start together, connections that break, a server that goes and comes
back, nodes that die or sleep."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.postgres import Server, execute, fetch
from toolyard.model.errors import MalformedRequest, SetupError, ToolyardError
from toolyard.model.lifecycle import State
from toolyard.model.writes import DIRECT, LeaseTerms
from toolyard.store.contract import Store
from toolyard.store.hints import Topic
from toolyard.store.postgres.connections import Pool
from toolyard.store.postgres.notifications import payloads_of
from toolyard.store.postgres.rows import PendingHints
from toolyard.store.postgres.schema import MIGRATING, migrate
from toolyard.store.postgres.store import PostgresStore
from toolyard.store.sql_files import migrations
from toolyard.store.values import Begun, Filter, Note, SchemaTooNew, StoreDown

from .calls import (
    ADA,
    DONE,
    KEY,
    OTHER_WORKER,
    REFERENCE,
    RETRY,
    UNKNOWN,
    WORKER,
    answer,
    beat,
    call,
    hand_back,
    in_session,
    ran,
    request,
    there,
    wanted,
    worker_call,
)
from .ledgers import RETENTION, TERMS, ManualClock, Opening

pytestmark = pytest.mark.kind("postgres")
SOON_S = 20.0
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
CUT = f"SELECT pg_terminate_backend(pid) {OTHERS}"


async def cut(url: str) -> None:
    """Every connection to the database."""
    await execute(url, CUT)


# -- starting -----------------------------------------------------------------------------------------


@pytest.fixture
def empty_url(postgres_server: Server) -> Any:
    name = postgres_server.create_empty()
    yield postgres_server.url_of(name)
    postgres_server.drop(name)


async def test_nodes_that_start_together_make_one_ledger(empty_url: str, runner: asyncio.Runner) -> None:
    nodes = [PostgresStore(empty_url, f"node-{number}", RETENTION, TERMS) for number in range(4)]
    await asyncio.gather(*(node.open() for node in nodes))
    try:
        begun = await asyncio.gather(*(node.begin(call()) for node in nodes))
        assert len([each for each in begun if each.seq]) == 1
        applied = [row[0] for row in await fetch(empty_url, "SELECT version FROM ledger_schema")]
        assert applied == [migration.number for migration in migrations("postgres")]
    finally:
        await asyncio.gather(*(node.close() for node in nodes))


async def test_a_migration_has_all_the_time_that_it_takes_and_nodes_wait_for_it(
    empty_url: str, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large ledger takes longer than any command of a node may."""
    monkeypatch.setattr("toolyard.store.postgres.connections.COMMAND_S", 0.1)
    migrating = await asyncpg.connect(empty_url)
    async with migrating.transaction():
        await migrating.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
        waiting = asyncio.ensure_future(migrate(empty_url))
        while not await migrating.fetchval("SELECT true FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            assert not waiting.done()
            await asyncio.sleep(0.01)
        await migrating.execute("SELECT pg_sleep(0.3)")
    assert await waiting == "public"
    await migrating.close()


async def test_a_ledger_of_an_older_toolyard_is_brought_up_to_date(empty_url: str, runner: asyncio.Runner) -> None:
    first = migrations("postgres")[0]
    version = "CREATE TABLE ledger_schema (version integer PRIMARY KEY)"
    await execute(empty_url, first.sql, version, "INSERT INTO ledger_schema VALUES (1)")
    store = PostgresStore(empty_url, "a", RETENTION, TERMS)
    await store.open()
    try:
        begun = await store.begin(call())
        assert await store.ask(begun.seq, 1, "sure", b"{}") is None
        assert there(await store.row(begun.seq)).waiting_for == "answer"
    finally:
        await store.close()


async def test_numbers_go_on_where_a_copy_of_the_database_left_its_sequence_behind(
    postgres_url: str, runner: asyncio.Runner
) -> None:
    store = PostgresStore(postgres_url, "a", RETENTION, TERMS)
    await store.open()
    given = [(await store.begin(call(f"call-{number}"))).seq for number in range(3)]
    await store.close()
    await execute(postgres_url, "ALTER SEQUENCE calls_seq RESTART")
    store = PostgresStore(postgres_url, "b", RETENTION, TERMS)
    await store.open()
    try:
        assert (await store.begin(call("later"))).seq > max(given)
    finally:
        await store.close()


async def test_a_ledger_of_a_newer_toolyard_is_refused(postgres_url: str, runner: asyncio.Runner) -> None:
    await execute(postgres_url, "INSERT INTO ledger_schema VALUES (999)")
    with pytest.raises(SchemaTooNew, match="schema 999"):
        await PostgresStore(postgres_url, "a", RETENTION, TERMS).open()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda url: "postgresql://ada:s3cret@host:port/x", "not an address"),
        (lambda url: url.replace("/toolyard_", "/no_such_"), "no such database"),
        (lambda url: url.replace("postgres:@", "nobody:s3cret@"), "does not accept this user"),
    ],
    ids=["no address", "no database", "no user"],
)
async def test_an_address_that_leads_nowhere_is_one_clear_sentence(
    postgres_url: str, runner: asyncio.Runner, change: Callable[[str], str], sentence: str
) -> None:
    with pytest.raises(SetupError, match=sentence) as refused:
        await PostgresStore(change(postgres_url), "a", RETENTION, TERMS).open()
    assert "s3cret" not in str(refused.value)


async def test_a_server_that_is_not_there_is_down(runner: asyncio.Runner) -> None:
    with pytest.raises(StoreDown) as down:
        await PostgresStore("postgresql://ada:s3cret@127.0.0.1:1/x", "a", RETENTION, TERMS).open()
    assert "s3cret" not in f"{down.value}{down.value.developer_message}"


def test_without_its_package_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['asyncpg'] = None; import toolyard.store.postgres.store"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "SetupError" in said
    assert "pip install 'asyncpg" in said


# -- other nodes ------------------------------------------------------------------------------------


async def test_of_two_nodes_with_one_key_at_the_same_instant_one_begins(store: Store, make_store: Opening) -> None:
    other = await make_store("b")
    for number in range(100):
        first, second = await asyncio.gather(*(node.begin(call(f"call-{number}")) for node in (store, other)))
        assert bool(first.seq) != bool(second.seq)
        assert {there(each.known).seq for each in (first, second) if not each.seq} == {first.seq or second.seq}


@pytest.mark.parametrize("heard", [True, False], ids=["by a notification", "by looking"])
async def test_who_waits_on_another_node_hears_of_an_end(
    store: Store, make_store: Opening, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    other = await make_store("b")
    if not heard:
        monkeypatch.setattr("toolyard.store.postgres.notifications.payloads_of", lambda node, told: iter(()))
    begun = await store.begin(call())
    with other.hints.waiting(Topic.ENDED, begun.seq) as bell:
        await store.finish(begun.seq, 1, DONE)
        assert await bell.wait(SOON_S)
    assert there(await other.row(begun.seq)).state is State.COMPLETE


async def test_who_watches_on_another_node_hears_of_work_of_sessions_and_of_workers_that_die(
    store: Store, make_store: Opening, postgres_url: str, clock: ManualClock
) -> None:
    """With nobody to tell it: the write was made by somebody else's hand."""
    other = await make_store("b", terms=LeaseTerms(lease_s=3600.0))
    await in_session(store, request())
    hints = other.hints
    with (
        hints.waiting(Topic.PENDING) as work,
        hints.waiting(Topic.SESSION, "s") as session,
        hints.waiting(Topic.WORKERS) as workers,
    ):
        assert await work.wait(SOON_S)
        assert await workers.wait(SOON_S), "the first look counts"
        await session.wait(1.0)
        await execute(postgres_url, "UPDATE sessions SET revision = revision + 1")
        assert await session.wait(SOON_S)
        await execute(postgres_url, "INSERT INTO workers VALUES ('default', 'robot', 'w', '[]', 1, 1e12)")
        assert await workers.wait(SOON_S)


def test_hints_of_any_number_fit_into_notifications() -> None:
    told: PendingHints = {(Topic.ENDED, number) for number in range(5000)}
    told |= {(Topic.SESSION, "s" * 9000), (Topic.PENDING, "")}
    payloads = list(payloads_of("node", told))
    assert max(len(payload.encode()) for payload in payloads) < 8000
    assert sum(payload.count(",") for payload in payloads) >= 5000


async def test_calls_of_a_node_that_died_are_lost_when_its_lease_is_over(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    other = await make_store("b")
    begun = await store.begin(call())
    assert await other.take_slot("Kit.Tool", 1)
    assert not await store.take_slot("Kit.Tool", 1)
    await clock.advance(TERMS.lease_s + 1)  # no time passes for the thread that renews
    assert [each.seq for each in await other.unstarted(10)] == [begun.seq]
    assert await store.unstarted(10) == [], "it is not lost to who runs it"
    assert await store.take_slot("Kit.Tool", 1), "what a dead node held is free"
    assert await other.restart(begun.seq, 1) == 2
    assert there(await store.finish(begun.seq, 1, DONE)).holder == "b"


async def test_a_node_that_slept_renews_its_lease_with_the_next_call(
    store: Store, make_store: Opening, clock: ManualClock
) -> None:
    other = await make_store("b")
    before = await store.begin(call("before"))
    await clock.advance(TERMS.lease_s + 1)
    assert [each.seq for each in await other.unstarted(10)] == [before.seq]
    await store.begin(call("after"))
    assert await other.unstarted(10) == []


async def test_the_lease_is_renewed_while_the_loop_is_blocked(postgres_url: str, runner: asyncio.Runner) -> None:
    terms = LeaseTerms(lease_s=1.5)
    first, second = (PostgresStore(postgres_url, node, terms=terms) for node in "ab")
    await first.open()
    await second.open()
    try:
        await first.begin(call())
        time.sleep(4.0)  # noqa: ASYNC251
        assert await second.unstarted(10) == []
    finally:
        await first.close()
        await second.close()


# -- connections that break -------------------------------------------------------------------------


class Breaking:
    """Makes the connection break after the next write was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.breaks = 0
        once = Pool._once

        async def and_break(link: Pool, work: Callable[..., Awaitable[Any]], *given: bool) -> Any:
            done = await once(link, work, *given)
            if given and self.breaks:
                self.breaks -= 1
                raise ConnectionResetError("the connection broke")
            return done

        monkeypatch.setattr(Pool, "_once", and_break)

    async def during(self, work: Awaitable[Any]) -> Any:
        self.breaks = 1
        done = await work
        assert self.breaks == 0
        return done


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    return Breaking(monkeypatch)


async def test_calls_whose_fate_was_not_known_are_recorded_once(store: Store, breaking: Breaking) -> None:
    begun = await breaking.during(store.begin(call()))
    assert begun.seq
    again = await breaking.during(store.begin(call()))
    assert (again.seq, again.known.seq) == (0, begun.seq)
    assert (await breaking.during(store.begin(call("unkeyed", keyed=False)))).seq
    await breaking.during(store.record([ran("ran", 15)]))
    assert len(await store.listed(Filter("default"))) == 3


async def test_an_end_whose_fate_was_not_known_is_ours(store: Store, breaking: Breaking) -> None:
    first, second = await store.begin(call()), await store.begin(call("second"))
    assert await breaking.during(store.finish(first.seq, 1, DONE)) is None
    assert await breaking.during(store.finish(second.seq, 1, RETRY)) is None
    assert there(await breaking.during(store.finish(first.seq, 1, RETRY))).value == b"15"


async def test_claims_whose_fate_was_not_known_are_found_again(store: Store, breaking: Breaking) -> None:
    await in_session(store, *(request(f"r{number}") for number in range(3)))
    claims = await breaking.during(store.claim(wanted(limit=2)))
    assert [(each.request, each.attempt) for each in claims] == [("r0", 1), ("r1", 1)]
    assert [each.request for each in await store.claim(wanted())] == ["r2"]


@pytest.mark.parametrize("what", ["a heartbeat", "an answer"])
async def test_a_request_that_moves_while_something_is_written_about_it_is_found(
    store: Store, postgres_url: str, what: str
) -> None:
    """The statement has looked up where its row is, and waits for whoever changes that row."""
    begun = await store.begin(worker_call())
    (claim,) = await store.claim(wanted(WORKER, limit=1))
    asked = there(claim.request)
    other = await asyncpg.connect(postgres_url)
    try:
        async with other.transaction():
            await other.execute("UPDATE calls SET progress = 'moved' WHERE seq = $1", begun.seq)
            if what == "a heartbeat":
                written: asyncio.Future[Any] = asyncio.ensure_future(store.beat([beat(WORKER, 1, asked, DIRECT)]))
            else:
                written = asyncio.ensure_future(store.answer(answer(WORKER, 1, request=asked, session=DIRECT)))
            while not await fetch(postgres_url, f"SELECT 1 {OTHERS} AND wait_event_type = 'Lock'"):
                pass
    finally:
        await other.close()
    said = await written
    assert there(said[0] if what == "a heartbeat" else said).reason is None
    row = there(await store.row(begun.seq))
    assert (row.progress, row.state) == (b"moved", State.PROCESSING if what == "a heartbeat" else State.COMPLETE)


async def test_what_is_said_of_requests_twice_is_heard_once(store: Store, breaking: Breaking) -> None:
    begun = await in_session(store, request("a"), request("b"), request("c"))
    (beaten,) = await breaking.during(store.beat([beat(request="a")]))
    assert (beaten.reason, beaten.attempt) == (None, 1)
    left = await breaking.during(store.leave(hand_back(attempt=1, request="a")))
    assert (left.reason, left.state) == (None, State.PENDING)
    answered = await breaking.during(store.answer(answer(request="b")))
    assert (answered.reason, answered.state) == (None, State.COMPLETE)
    cancelled = await breaking.during(store.cancel(begun[2].seq))
    assert (cancelled.reason, cancelled.standing.code) == (None, "cancelled")
    events = await store.events("s", 0, 100)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert sum(event.kind == "request" for event in events) == 3 + 2 + 1 + 1


async def test_a_message_whose_fate_was_not_known_is_taken_once_and_is_ours(store: Store, breaking: Breaking) -> None:
    begun = await breaking.during(in_session(store, request("a", queue="node"), request("b")))
    assert all(each.seq for each in begun)
    again = await breaking.during(store.add_turn("s", [request("a", queue="node"), request("c")]))
    assert [bool(each.seq) for each in again] == [False, True]
    assert there(await store.session("default", "ada", "s")).open == 3


async def test_nodes_settle_once_what_they_settle_twice(
    store: Store, make_store: Opening, breaking: Breaking, clock: ManualClock
) -> None:
    calls = [await store.begin(call(f"call-{number}", on_lost="unknown")) for number in range(3)]
    await breaking.during(store.hand_back(calls[0].seq, 1))
    other = await make_store.instead_of(store, "b")
    assert await breaking.during(other.restart(calls[0].seq, 1)) == 2
    assert await breaking.during(other.give_up(calls[1].seq, 1, UNKNOWN)) is True
    assert (await breaking.during(other.resolve(calls[1].seq, DONE))).value == b"15"
    assert await breaking.during(other.give_up(calls[2].seq, 1, UNKNOWN)) is True
    assert (await breaking.during(other.resolve(calls[2].seq, None))).state is State.PENDING


async def test_questions_and_notes_whose_fate_was_not_known_are_written_once(store: Store, breaking: Breaking) -> None:
    begun = await store.begin(call())
    for name in ("b", "a"):
        assert await breaking.during(store.ask(begun.seq, 1, name, b"{}")) is None
    with store.hints.waiting(Topic.QUESTION, begun.seq) as bell:
        await bell.wait(1.0)  # the first look
        await breaking.during(store.answer_questions(begun.seq, {"a": b"1", "b": b"2"}))
        assert await bell.wait(0), "told at once"
    assert [(each.name, each.answer) for each in await store.questions(begun.seq)] == [("b", b"2"), ("a", b"1")]
    await breaking.during(store.add_call_events([(begun.seq, 1, b"x")]))
    assert await store.call_events(begun.seq, 0) == [(1, b"x")]
    await breaking.during(store.put_note(Note("kind", "default", "ada", "name", b"x"), 10.0))
    assert await breaking.during(store.drop_note("kind", "default", "ada", "name"))
    assert await store.note("kind", "default", "ada", "name") is None


async def test_a_slot_whose_fate_was_not_known_is_taken_once(store: Store, breaking: Breaking) -> None:
    assert await breaking.during(store.take_slot("Kit.Tool", 2))
    assert await store.take_slot("Kit.Tool", 2)
    assert not await store.take_slot("Kit.Tool", 2)
    await breaking.during(store.give_slot("Kit.Tool"))
    assert await store.take_slot("Kit.Tool", 2)


async def test_connections_cut_under_load_lose_nothing_and_double_nothing(store: Store, postgres_url: str) -> None:
    acknowledged: dict[str, int] = {}
    stopping = asyncio.Event()

    async def calling(name: int) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            call_id = f"call-{name}-{number}"
            begun: Begun = await insisting(lambda call_id=call_id: store.begin(call(call_id)))  # type: ignore[misc]
            seq = begun.seq or there(begun.known).seq
            await insisting(lambda seq=seq: store.finish(seq, 1, DONE))  # type: ignore[misc]
            acknowledged[call_id] = seq

    async def cutting() -> None:
        for _ in range(10):
            await asyncio.sleep(0.2)
            await cut(postgres_url)
        stopping.set()

    await asyncio.gather(cutting(), *(calling(name) for name in range(50)))
    rows = await fetch(postgres_url, "SELECT call_id, seq, state, value FROM calls")
    assert len(rows) == len({row["call_id"] for row in rows}), "none is there twice"
    there_now = {row["call_id"]: row["seq"] for row in rows if (row["state"], row["value"]) == ("COMPLETE", b"15")}
    assert len(acknowledged) > 50
    assert acknowledged.items() <= there_now.items()
    assert await fetch(postgres_url, "SELECT 1 FROM running") == []


async def insisting(write: Callable[[], Awaitable[Any]]) -> Any:
    """As whoever is told to come back would."""
    while True:
        try:
            return await write()
        except StoreDown:
            await asyncio.sleep(0.05)


async def test_work_goes_on_while_connections_are_cut(store: Store, make_store: Opening, postgres_url: str) -> None:
    other = await make_store("b")
    for start in range(0, 300, 100):
        await asyncio.gather(*(store.begin(worker_call(f"call-{start + n}", keyed=False)) for n in range(100)))
    given: list[str] = []

    async def working(node: Store, who: Any) -> None:
        while claims := await insisting(lambda: node.claim(wanted(who, limit=5))):
            for each in claims:
                given.append(each.request)
                said = answer(who, each.attempt, request=each.request, session=DIRECT)
                assert (await insisting(lambda said=said: node.answer(said))).reason is None  # type: ignore[misc]

    async def cutting() -> None:
        for _ in range(5):
            await cut(postgres_url)
            await asyncio.sleep(0.1)

    people = [(store, WORKER), (other, OTHER_WORKER)] * 3
    await asyncio.gather(cutting(), *(working(*each) for each in people))
    assert len(given) == len(set(given)), "nothing was given out twice"
    left = await fetch(postgres_url, "SELECT state, count(*) FROM calls GROUP BY state")
    assert dict(left).get("COMPLETE") == len(given)


# -- large ledgers and odd values ----------------------------------------------------------------------


async def test_what_has_ended_slows_nothing(store: Store, postgres_url: str, clock: ManualClock) -> None:
    """However the planner came to its plans: here it thinks that all tables are empty."""
    await execute(
        postgres_url,
        "ANALYZE",
        "INSERT INTO calls (seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, "
        "on_lost, queue, session, request, turn, state, code, attempt, created_at, finished_at) "
        "SELECT nextval('calls_seq'), 'default', 'ada', 'oxp', 'old-' || n, false, 'oxp', 'Kit.Tool', "
        f"'{REFERENCE}', '', '', 'rerun', 'worker', 'direct', 'old-' || n, 0, 'COMPLETE', 'success', 1, "
        "ledger_now(), ledger_now() FROM generate_series(1, 20000) AS n",
        "ALTER TABLE calls SET (autovacuum_enabled = off)",
    )
    before = await read(postgres_url)
    for number in range(5):
        await store.begin(worker_call(f"call-{number}"))
        (claim,) = await store.claim(wanted(WORKER, limit=1))
        await store.beat([beat(WORKER, 1, request=there(claim.request), session=DIRECT)])
        await store.answer(answer(WORKER, 1, request=there(claim.request), session=DIRECT))
        await store.answer(answer(WORKER, 1, request=there(claim.request), session=DIRECT))
        begun = await store.begin(call(f"own-{number}"))
        await store.finish(begun.seq, 1, DONE)
        await store.unstarted(10)
        await store.expire(10)
        await store.sweep(10)
        await store.get("default", "ada", f"call-{number}")
        await store.row(claim.seq)
        await store.find(KEY)
        await store.listed(Filter("default", limit=5))
        await store.listed(Filter("default", wire="oxp", limit=5))
        await store.listed(Filter("default", state=State.PENDING))
        await store.requests(wanted(WORKER, limit=5))
    await asyncio.sleep(1.5)  # until the server has counted
    assert await read(postgres_url) - before < 2000


async def read(url: str) -> int:
    """How many rows of calls were looked at so far."""
    (row,) = await fetch(
        url, "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'calls'"
    )
    return int(row[0])


async def test_nul_has_no_place_in_text_and_does_no_harm(store: Store) -> None:
    begun = await store.begin(call("a\0b", user_id="u\0", trace_id="\0", tool="Kit\0"))
    row = there(await store.get("default", "ada", "a\0b"))
    assert (row.seq, row.user_id, row.trace_id) == (begun.seq, "u\ufffd", "\ufffd")
    assert await store.request(ADA, "no\0ne", "\0") is None
    assert await store.beat([beat(request="\0", session="\0")]) == [None]


async def test_large_calls_are_recorded_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.store.postgres.batches.MOST_BYTES_AT_ONCE", 1000)
    monkeypatch.setattr("toolyard.store.postgres.begin.MOST_BYTES_AT_ONCE", 1000)
    input = b'"' + b"x" * 400 + b'"'
    begun = await asyncio.gather(*(store.begin(call(f"call-{number}", input=input)) for number in range(20)))
    await asyncio.gather(*(store.finish(each.seq, 1, DONE) for each in begun))
    await store.record([ran(f"ran-{number}", number, {"a": "x" * 400}) for number in range(20)])
    assert len(await store.listed(Filter("default", state=State.COMPLETE))) == 40


async def test_one_that_cannot_be_recorded_fails_alone(store: Store) -> None:
    calls = [call(f"call-{number}") for number in range(5)]
    calls[2] = call("\ud800")
    calls[3] = call("".join(chr(0x4E00 + number) for number in range(3000)))
    begun = await asyncio.gather(*(store.begin(each) for each in calls), return_exceptions=True)
    assert [isinstance(each, ToolyardError) for each in begun] == [False, False, True, True, False]
    assert len(await store.listed(Filter("default"))) == 3


async def test_one_whose_name_is_taken_fails_alone_and_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random names do not meet; if they did, nobody would wait for it."""
    monkeypatch.setattr("toolyard.model.writes.token_hex", lambda size: "0" * 2 * size)
    monkeypatch.setattr("toolyard.store.postgres.connections.PATIENCE_S", 3600.0)
    calls = [worker_call(each, keyed=False) for each in ("a", "b", "b", "c")]
    begun = await asyncio.gather(*(store.begin(each) for each in calls), return_exceptions=True)
    assert [isinstance(each, MalformedRequest) for each in begun] == [False, False, True, False]
    assert len(await store.claim(wanted(WORKER))) == 3


async def test_an_attempt_of_any_size_is_judged(store: Store) -> None:
    await in_session(store, request())
    verdicts = await store.beat([beat(attempt=2**70), beat(attempt=-1), beat(attempt=None)])
    assert [there(verdict).reason for verdict in verdicts] == ["stale_attempt", "stale_attempt", None]
