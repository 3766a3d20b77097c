"""What is measured, one function a scenario; each gives rows of the one table."""

import compileall
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import contenders, trust
from bench.contenders import PEERS, enveloped, flat, keyed
from bench.contest import Loaded, complain, contest, invited, on_floor
from bench.database import database
from bench.gateway import through_gateways
from bench.ledger import disk, history
from bench.lists import lists, peers_list
from bench.mcp import mcp_call, mcp_list_peers, mcp_peers
from bench.measure import Effort, Start, cold_starts
from bench.million import million
from bench.queueing import queue, queue_http
from bench.recovery import recovery
from bench.report import Bar, Goal, Of, Row, bar, figure_row
from bench.servers import ServerError
from bench.steady import memory, pace
from bench.trust import access, with_token

import toolyard


def ceiling(effort: Effort) -> list[Row]:
    """How fast the load generator can ask at all."""
    nobody = contenders.bare()
    return contest("load generator's own ceiling", [Loaded(nobody, nobody.call)], effort.for_peers())


def call(effort: Effort) -> list[Row]:
    """Ledger and audit off: the path alone."""
    trimmed = contenders.floor("--trimmed", name="floor, trimmed")
    flat_one, enveloped_one = contenders.toolyard(), contenders.toolyard(name="toolyard, OTC 1.0 envelope")
    loaded = [
        on_floor(),
        Loaded(trimmed, trimmed.call),
        Loaded(flat_one, flat_one.call, bar(Of.CPU, "<=", 1.0, stretch=0.85)),
        Loaded(enveloped_one, enveloped("Bench.Add"), bar(Of.CPU, "<=", 1.05, stretch=0.85)),
    ]
    return contest("OXP call, ledger and audit off", loaded, effort)


def default(effort: Effort) -> list[Row]:
    """As `toolyard serve` runs without settings: every call recorded and audited. The floor does neither."""
    open_one = contenders.toolyard(name="toolyard by default", settings=None)
    signed = with_token(flat("Bench.Add"))
    closed_one = replace(contenders.toolyard(name="toolyard by default, JWT", settings=trust.SETTINGS), call=signed)
    loaded = [
        on_floor(),
        Loaded(open_one, open_one.call, bar(Of.CPU, "<=", 1.3, stretch=1.0)),
        Loaded(closed_one, signed, bar(Of.CPU, "<=", 1.4, stretch=1.0)),
    ]
    return contest("OXP call by default", loaded, effort)


def thread(effort: Effort) -> list[Row]:
    ours = Loaded(contenders.toolyard(), flat("Bench.AddSync"), bar(Of.RATIO, ">=", 0.4, stretch=0.5))
    return contest("sync tool in a thread", [on_floor(), ours], effort)


def durable(effort: Effort) -> list[Row]:
    """Two durable writes a call."""
    enough = Bar((Goal(Of.FIGURE, ">=", 8000, "/s"), Goal(Of.RATIO, ">=", 0.3)), Goal(Of.FIGURE, ">=", 10_000, "/s"))
    ours = Loaded(contenders.toolyard(name="toolyard, with a key"), keyed("Bench.Add"), enough)
    return [flushes(), *contest("keyed OXP call, SQLite", [on_floor(), ours], effort)]


def durable_postgres(effort: Effort) -> list[Row]:
    """The same with the ledger on PostgreSQL, where a write is also a way there and back."""
    with database() as postgres:
        ours = contenders.toolyard(name="toolyard, with a key", store=postgres.create())
        return [
            flushes(),
            figure_row("commit of one row", "PostgreSQL", postgres.commit_times(), "{:.3f} ms"),
            *contest(
                "keyed OXP call, PostgreSQL", [on_floor(), Loaded(ours, keyed("Bench.Add"))], effort.for_loose_bars()
            ),
        ]


def processes(effort: Effort) -> list[Row]:
    """What a call costs more where two processes share the work of one core, by default and with a key: each writes
    behind by itself, so that as many calls make twice as many writes. (Of rates it says nothing: it takes more cores.)
    Slices are long, or most of those writes would be the ones after a slice's end."""
    effort = replace(effort, connections=256, slice=1.0, seconds=max(effort.seconds, 4.0))
    rows = []
    with database() as postgres:
        for kind, what in (("OXP call", flat("Bench.Add")), ("keyed OXP call", keyed("Bench.Add"))):
            one, two = (
                contenders.toolyard(
                    name=f"toolyard, processes: {count}", settings=None, store=postgres.create(), processes=count
                )
                for count in (1, 2)
            )
            loaded = [Loaded(one, what), Loaded(two, what, bar(Of.CPU, "<=", 1.25))]
            rows += contest(f"{kind}, PostgreSQL, two processes", loaded, effort.for_loose_bars())
    return rows


def flushes() -> Row:
    return figure_row("flush of the disk", "fsync", flush_times(), "{:.3f} ms")


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


def scale(effort: Effort) -> list[Row]:
    few = contenders.toolyard(name="toolyard, 2 tools")
    many = contenders.toolyard_of_many("toolyard, 1,000 tools")
    loaded = [Loaded(few, few.call), Loaded(many, many.call, bar(Of.CPU, "<=", 1.05))]
    return contest("call among few and many", loaded, effort)


def start(effort: Effort) -> list[Row]:
    """Ledger and audit are on, as they are by default."""
    compileall.compile_dir(Path(toolyard.__file__).parent, quiet=1)  # as pip does for whatever it installs
    floor, ours = cold_starts([contenders.floor(), contenders.toolyard(settings=None)], effort.starts)
    took = bar(Of.RATIO, "<=", 2.2, stretch=1.8)
    held = bar(Of.FIGURE, "<=", 60, stretch=50, unit=" MB")
    rows = start_rows("floor", floor) + start_rows("toolyard by default", ours, floor, took, held)
    able, rows_without = invited("cold start, memory", PEERS)
    for peer in able:
        try:
            rows += start_rows(peer.name, cold_starts([peer.contender()], effort.peer_starts)[0])
        except ServerError as error:
            complain(error)
    return rows + rows_without


def start_rows(
    name: str, starts: list[Start], base: list[Start] | None = None, took: Bar | None = None, held: Bar | None = None
) -> list[Row]:
    seconds, megabytes = [one.seconds for one in starts], [one.memory_mb for one in starts]
    base_seconds, base_megabytes = (
        ([one.seconds for one in base], [one.memory_mb for one in base]) if base else (None, None)
    )
    return [
        figure_row("cold start to the first answer", name, seconds, "{:.3f} s", took, base_seconds),
        figure_row("memory at idle", name, megabytes, "{:.1f} MB", held, base_megabytes),
    ]


def peers(effort: Effort) -> list[Row]:
    """Each against the floor of the same round."""
    work, ours = "call, among peers", contenders.toolyard()
    able, rows_without = invited(work, PEERS)
    loaded = [on_floor(), Loaded(ours, ours.call), *(Loaded(peer.contender(), peer.call) for peer in able)]
    return contest(work, loaded, effort.for_peers()) + rows_without


SCENARIOS: dict[str, Callable[[Effort], list[Row]]] = {
    "ceiling": ceiling,
    "call": call,
    "default": default,
    "mcp": mcp_call,
    "mcp-peers": mcp_peers,
    "thread": thread,
    "access": access,
    "scale": scale,
    "durable": durable,
    "durable-postgres": durable_postgres,
    "processes": processes,
    "list": lists,
    "start": start,
    "peers": peers,
    "peers-list": peers_list,
    "mcp-peers-list": mcp_list_peers,
    "queue": queue,
    "queue-http": queue_http,
    "million": million,
    "disk": disk,
    "history": history,
    "memory": memory,
    "pace": pace,
    "recovery": recovery,
    "gateway": through_gateways,
}
