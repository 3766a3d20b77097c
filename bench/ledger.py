"""What recording costs on disk, and what it costs to find one's own calls among millions of others'."""

import asyncio
import http.client
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from bench import contenders, trust
from bench.contenders import flat
from bench.measure import SERVER_CORE, Effort, Entrant, load
from bench.report import Bar, Of, Row, bar, figure_row
from bench.servers import Exchange, Server, ServerError, serving
from bench.tools.add import bench
from bench.trust import with_token
from msgspec import Raw

from toolyard.model.call import CallTool, Outcome
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.clock import random_id
from toolyard.model.record import Ran
from toolyard.model.run import Run
from toolyard.store.sqlite.store import SqliteStore

SLOW_RATE = 10.0
FULL_RATE_S = 8
"""In lengths of a round."""
AT_REST_S = 1.5
"""More than a server writes behind."""


def disk(effort: Effort) -> list[Row]:
    """By default, recorded and audited, on SQLite."""
    at_most = partial(bar, Of.FIGURE, "<=", unit=" bytes")
    full = replace(effort, seconds=FULL_RATE_S * effort.seconds)
    slow = replace(effort, seconds=effort.slow_s, slice=effort.slow_s)
    return [
        *stored("call of two numbers, full rate", full, None, at_most(200, stretch=80)),
        *stored(f"call of two numbers, {SLOW_RATE:g} calls/s", slow, [SLOW_RATE], at_most(400)),
    ]


def stored(work: str, effort: Effort, rates: list[float] | None, to_meet: Bar) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-disk-") as folder:
        path, name = Path(folder) / "ledger.db", "toolyard by default"
        with serving(contenders.toolyard(name=name, settings=None, store=f"sqlite:{path}"), SERVER_CORE) as server:
            size, rows = at_rest(path)
            (sample,) = load([Entrant(server, flat("Bench.Add"))], effort, rates)
            size_after, rows_after = at_rest(path)
    bytes_a_call = (size_after - size) / sample.sent
    grown = {table: (count - rows[table]) / sample.sent for table, count in rows_after.items() if count > rows[table]}
    listed = ", ".join(f"{table} {count:.4f}" for table, count in grown.items())
    return [
        figure_row(
            f"{work}: bytes on disk a call", f"{name}, {sample.sent:,} calls", [bytes_a_call], "{:.0f}", to_meet
        ),
        Row(f"{work}: rows a call", name, listed),
    ]


def at_rest(path: Path) -> tuple[int, dict[str, int]]:
    """The ledger's bytes once all is written and checkpointed, and the rows of its tables."""
    time.sleep(AT_REST_S)
    with closing(sqlite3.connect(path, timeout=30)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: ledger.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")), rows


# --- one's own among many -------------------------------------------------------------------------

BATCH = 5000
OTHERS = 1000
"""How many others the calls are of."""
OWN = 200
"""How many calls each of the two has who look for theirs."""
FIRST, AMONG = "first", "among"
"""One made its calls before all others, the other made them evenly among theirs."""
LOOKS = 50
CALL = CallTool("Bench.Add", {}, wire="oxp", family="oxp", input_json=b'{"a":10,"b":5}')
TOOL, CHANNEL, VALUE = bench.tools[0], QuietChannel(), Raw(b"15.0")


def history(effort: Effort) -> list[Row]:
    many = round(effort.millions * 1_000_000)
    with tempfile.TemporaryDirectory(prefix="bench-history-") as folder:
        path = f"{folder}/ledger.db"
        began = time.perf_counter()
        ids = asyncio.run(fill(path, many))
        took = time.perf_counter() - began
        rows = [
            Row(f"{many:,} calls of others are recorded", "toolyard, SQLite", f"{many / took:,.0f}/s"),
            Row(f"{many:,} calls of others on disk", "", f"{Path(path).stat().st_size / many:.0f} bytes a call"),
        ]
        who = contenders.toolyard(name="toolyard, SQLite", settings=trust.SETTINGS, store=f"sqlite:{path}")
        with serving(replace(who, call=with_token(who.call))) as server:
            for subject, where in ((FIRST, "made before them"), (AMONG, "made among them")):
                rows += looked_up(server, subject, ids[subject], f"{many:,} calls of others, {where}")
    return rows


def looked_up(server: Server, subject: str, ids: list[str], work: str) -> list[Row]:
    newest = Exchange("GET", "/v1/calls?limit=100", b"", lambda reply: len(reply["calls"]) == 100)
    by_id = [Exchange("GET", f"/v1/calls/{each}", b"", lambda reply: bool(reply["state"])) for each in ids]
    return [
        look(server, subject, [newest] * LOOKS, f"{work}: one's newest 100", 20),
        look(server, subject, by_id[:: max(1, len(by_id) // LOOKS)], f"{work}: one by id", 5),
    ]


def look(server: Server, subject: str, exchanges: list[Exchange], work: str, limit_ms: float) -> Row:
    """One request after the other on one connection; each reply has to be right."""
    headers, times = with_token(exchanges[0], subject).headers(server.port), []
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        for exchange in exchanges:
            began = time.perf_counter()
            connection.request(exchange.method, exchange.path, headers=headers)
            reply = connection.getresponse()
            body = reply.read()
            times.append((time.perf_counter() - began) * 1000)
            if reply.status != 200 or not exchange.accepts(body):
                raise ServerError(f"{exchange.path}: {reply.status} {body[:200]!r}")
    row = figure_row(work, server.contender.name, times, "{:.2f} ms", bar(Of.FIGURE, "<=", limit_ms, unit=" ms"))
    return replace(row, latency=f"{statistics.median(times):.2f} / {max(times):.2f}")


async def fill(path: str, many: int) -> dict[str, list[str]]:
    """Through the store itself. The ids of the calls of the two who will look for theirs."""
    ids: dict[str, list[str]] = {FIRST: [], AMONG: []}
    store = SqliteStore(path, "bench")
    await store.open()
    try:
        batch: list[Ran] = []
        for subject in subjects(many):
            call_id = random_id()
            if subject in ids:
                ids[subject].append(call_id)
            batch.append(ran(call_id, subject))
            if len(batch) == BATCH:
                await store.record(batch)
                batch = []
        await store.record(batch)
    finally:
        await store.close()
    return ids


def subjects(many: int) -> Iterator[str]:
    """Whose calls they are, in order."""
    yield from [FIRST] * OWN
    for number in range(many):
        if number % (many // OWN) == 0:
            yield AMONG
        yield f"other-{number % OTHERS}"


def ran(call_id: str, subject: str) -> Ran:
    return CALL, Run(TOOL, call_id, caller(subject), {}, CHANNEL), Outcome(call_id, 0.03, VALUE)


@cache
def caller(subject: str) -> Caller:
    return Caller("default", subject)
