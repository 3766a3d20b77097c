"""What is measured, one function a scenario; each gives rows of the one table."""

import compileall
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import contenders
from bench.contenders import LIST, PEERS, enveloped, flat, keyed
from bench.contest import complain, contest, invited, on_floor
from bench.database import database
from bench.mcp import mcp_call, mcp_list
from bench.measure import Effort, Start, cold_starts
from bench.million import million
from bench.queueing import queue, queue_http
from bench.recovery import recovery
from bench.report import Bar, Row, missing, value_row
from bench.servers import Contender, ServerError, serving
from bench.trust import access, token

import toolyard


def ceiling(effort: Effort) -> list[Row]:
    """How fast the load generator can ask at all."""
    nobody = contenders.bare()
    return contest("load generator's own ceiling", [(nobody, nobody.call)], effort.for_peers())


def call(effort: Effort) -> list[Row]:
    ours = contenders.toolyard()
    trimmed = contenders.floor("--trimmed", name="floor, trimmed")
    loaded = [on_floor(), (trimmed, trimmed.call), (ours, ours.call)]
    return contest("OXP call", loaded, effort, Bar(">=", 0.75))


def envelope(effort: Effort) -> list[Row]:
    ours = contenders.toolyard(), enveloped("Bench.Add")
    return contest("OTC 1.0 envelope", [on_floor(), ours], effort, Bar(">=", 0.75))


def thread(effort: Effort) -> list[Row]:
    ours = contenders.toolyard(), flat("Bench.AddSync")
    return contest("sync tool in a thread", [on_floor(), ours], effort, Bar(">=", 0.4))


def recorded(effort: Effort) -> list[Row]:
    ours = contenders.toolyard(name="toolyard, every call recorded", settings=None)
    return contest("OXP call, recorded", [on_floor(), (ours, ours.call)], effort, Bar(">=", 0.65))


def durable(effort: Effort) -> list[Row]:
    """Two durable writes a call. 8,000 of them a second are 0.27 of the floor where that does 29,700."""
    flushes = value_row("flush of the disk", "fsync", flush_times(), "{:.3f}", " ms", None)
    ours = contenders.toolyard(name="toolyard, with a key"), keyed("Bench.Add")
    return [flushes, *contest("keyed OXP call, durable", [on_floor(), ours], effort, Bar(">=", 0.27))]


def durable_postgres(effort: Effort) -> list[Row]:
    """The same with the ledger on PostgreSQL, where a write is also a way there and back."""
    with database() as postgres:
        ours = contenders.toolyard(name="toolyard, with a key, on PostgreSQL", store=postgres.create())
        return [
            value_row("flush of the disk", "fsync", flush_times(), "{:.3f}", " ms", None),
            value_row("commit of one row", "PostgreSQL", postgres.commit_times(), "{:.3f}", " ms", None),
            *contest("keyed OXP call, PostgreSQL", [on_floor(), (ours, keyed("Bench.Add"))], effort),
        ]


def flush_times() -> list[float]:
    """How long it takes to make a small write durable here, in milliseconds."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - started) * 1000)
    return times


def listing(effort: Effort) -> list[Row]:
    """The floor sends the very bytes that toolyard sends, if toolyard is there to give them."""
    ours = contenders.toolyard_of_many()
    with tempfile.NamedTemporaryFile(prefix="bench-list-") as file:
        try:
            with serving(ours) as server:
                file.write(server.ask(LIST))
                file.flush()
            floor = contenders.floor("--list-file", file.name)
        except ServerError:
            floor = contenders.floor()
        return contest("list 1,000 tools", [(floor, LIST), (ours, LIST)], effort, Bar(">=", 0.5))


def scale(effort: Effort) -> list[Row]:
    few = contenders.toolyard(name="toolyard, 2 tools")
    many = contenders.toolyard_of_many("toolyard, 1,000 tools")
    return contest("call among few and many", [(few, few.call), (many, many.call)], effort, Bar(">=", 0.95))


def start(effort: Effort) -> list[Row]:
    bars = Bar("<=", 0.4, " s"), Bar("<=", 60, " MB")
    compileall.compile_dir(Path(toolyard.__file__).parent, quiet=1)  # as pip does for whatever it installs
    floor, ours = started([contenders.floor(), contenders.toolyard()], effort.starts)
    rows = start_rows("floor", floor, (None, None)) + start_rows("toolyard", ours, bars)
    able, rows_without = invited("cold start, memory", PEERS)
    for peer in able:
        rows += start_rows(peer.name, started([peer.contender()], effort.peer_starts)[0], (None, None))
    return rows + rows_without


def peers(effort: Effort) -> list[Row]:
    """Each against the floor of the same round."""
    work, ours = "call, among peers", contenders.toolyard()
    able, rows_without = invited(work, PEERS)
    loaded = [on_floor(), (ours, ours.call), *((peer.contender(), peer.call) for peer in able)]
    return contest(work, loaded, effort.for_peers()) + rows_without


def peers_list(effort: Effort) -> list[Row]:
    work, ours = "list 1,000 tools, among peers", contenders.toolyard_of_many()
    able, rows_without = invited(work, [peer for peer in PEERS if peer.list_path])
    theirs = [(peer.contender(contenders.MANY), peer.listing) for peer in able]
    loaded = [(contenders.floor(), LIST), (ours, LIST), *theirs]
    return contest(work, loaded, effort.for_peers()) + rows_without


def started(who: list[Contender], times: int) -> list[list[Start]]:
    """The starts of each, none if it does not start; together if all do, so that they share the drift."""
    try:
        return cold_starts(who, times)
    except ServerError as error:
        if len(who) > 1:
            return [started([one], times)[0] for one in who]
        complain(error)
        return [[]]


def start_rows(name: str, starts: list[Start], bars: tuple[Bar | None, Bar | None]) -> list[Row]:
    works = "cold start to the first answer", "memory at idle"
    if not starts:
        return [missing(work, name, "no figure", bar) for work, bar in zip(works, bars, strict=True)]
    return [
        value_row(works[0], name, [one.seconds for one in starts], "{:.3f}", " s", bars[0]),
        value_row(works[1], name, [one.memory_mb for one in starts], "{:.1f}", " MB", bars[1]),
    ]


SCENARIOS: dict[str, Callable[[Effort], list[Row]]] = {
    "ceiling": ceiling,
    "call": call,
    "envelope": envelope,
    "thread": thread,
    "recorded": recorded,
    "token": token,
    "access": access,
    "durable": durable,
    "durable-postgres": durable_postgres,
    "list": listing,
    "scale": scale,
    "start": start,
    "peers": peers,
    "peers-list": peers_list,
    "mcp": mcp_call,
    "mcp-list": mcp_list,
    "queue": queue,
    "queue-http": queue_http,
    "million": million,
    "recovery": recovery,
}
