"""A ledger that has a million finished calls, beside one that has none: what must not depend on it."""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing

from bench import contenders
from bench.contenders import keyed
from bench.contest import Loaded, complain, contest
from bench.database import connect, database
from bench.lanes import Plan, in_turn, lane, of_ledger
from bench.measure import Effort
from bench.report import Of, Row, bar, figure_row
from bench.servers import Exchange, ServerError, serving

APART_S = 0.3
"""How far apart they came: the oldest is not old enough to be swept."""
BAR = bar(Of.RATIO, ">=", 0.9)
NEWEST = Exchange("GET", "/v1/calls?limit=50", b"", lambda reply: len(reply["calls"]) == 50)
FIRST = 50
"""How many calls the empty ledger has, so that there is something to list."""
INPUT = b'{"text":"' + b"x" * 189 + b'"}'
JOBS_A_SECOND = 4000

# A finished call over HTTP is the pattern: the new ones are copies of it, each with its own number, id and time.
OWN = {
    "seq": "seq + n",
    "call_id": "'old-' || (1000000000 + n)",
    "input": "{input}",
    "created_at": "{oldest} + n * {apart}",
    "started_at": "{oldest} + n * {apart}",
    "finished_at": "{oldest} + n * {apart}",
}
NUMBERS = {
    "sqlite": "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {many})",
    "postgres": "WITH numbers AS (SELECT n FROM generate_series(1, {many}) AS n)",
}


def million(effort: Effort) -> list[Row]:
    effort = effort.for_loose_bars()
    with tempfile.TemporaryDirectory(prefix="bench-million-") as folder:
        files = [f"sqlite:{folder}/{name}.db" for name in ("empty", "full")]
        rows = measured("SQLite", files[0], files[1], fill_sqlite, effort)
    with database() as postgres:
        return rows + measured("PostgreSQL", postgres.create(), postgres.create(), fill_postgres, effort)


def measured(kind: str, empty: str, full: str, fill: Callable[[str, int], None], effort: Effort) -> list[Row]:
    size = round(effort.millions * 100_000)
    names = f"{kind}, empty", f"{kind}, {size:,} calls"
    works = [f"keyed call, {kind}", f"newest 50 calls, {kind}", f"claim, heartbeat, complete, {kind}"]
    try:
        for address in (empty, full):
            with serving(contenders.toolyard(store=address)) as server:
                for number in range(FIRST if address == empty else 1):
                    server.ask(named(f"first-{number}"))
        fill(full, size)
        few, many = (
            contenders.toolyard(name=f"toolyard, {name}", store=at)
            for name, at in zip(names, (empty, full), strict=True)
        )
        listed = contest(works[1], [Loaded(few, NEWEST), Loaded(many, NEWEST, BAR)], effort)
        call = keyed("Bench.Add")
        called = contest(works[0], [Loaded(few, call), Loaded(many, call, BAR)], effort)
        return called + listed + queued(works[2], names, (empty, full), effort)
    except ServerError as error:
        complain(error)
        return [Row(work, f"toolyard, {names[1]}", "no figure", bar=BAR) for work in works]


def named(call_id: str) -> Exchange:
    pattern = keyed("Bench.Add")
    return Exchange(pattern.method, pattern.path, pattern.body.replace(b"@@N@@", call_id.encode()), pattern.is_right)


def queued(work: str, names: tuple[str, str], addresses: tuple[str, str], effort: Effort) -> list[Row]:
    plan = Plan(round(JOBS_A_SECOND * effort.seconds))
    with lane(names[0], plan, of_ledger(addresses[0])) as few, lane(names[1], plan, of_ledger(addresses[1])) as many:
        in_turn([few, many], 1)
        turns = in_turn([few, many], effort.rounds)
    rates = [[turn.worked for turn in mine] for mine in turns]
    return [
        figure_row(work, f"toolyard, {names[0]}", rates[0], "{:,.0f}/s"),
        figure_row(work, f"toolyard, {names[1]}", rates[1], "{:,.0f}/s", BAR, rates[0]),
    ]


def copies(kind: str, many: int, table: str, columns: list[str], literal: str) -> str:
    """What makes that many rows of one."""
    values = {"input": literal, "oldest": repr(time.time() - (many + 600) * APART_S), "apart": repr(APART_S)}
    chosen = ", ".join(OWN.get(column, column).format(**values) for column in columns)
    numbers = NUMBERS[kind].format(many=many)
    return f"{numbers} INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table}, numbers"


def fill_sqlite(address: str, many: int) -> None:
    with closing(sqlite3.connect(address.partition(":")[2])) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -1000000")
        for table in ("calls", "keys"):
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            connection.execute(copies("sqlite", many, table, columns, f"x'{INPUT.hex()}'"))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_postgres(address: str, many: int) -> None:
    asyncio.run(_fill_postgres(address, many))


async def _fill_postgres(address: str, many: int) -> None:
    connection = await connect(address)
    try:
        for table in ("calls", "keys"):
            rows = await connection.fetch(
                "SELECT column_name FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position",
                table,
            )
            columns = [row[0] for row in rows]
            await connection.execute(copies("postgres", many, table, columns, f"'\\x{INPUT.hex()}'::bytea"))
        await connection.execute("SELECT setval('calls_seq', (SELECT max(seq) FROM calls))")
        # Else it comes by itself, in the middle of what is measured.
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
