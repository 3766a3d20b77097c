"""What shows only in the long run: memory after many calls, and replies that come late while others are in time."""

import statistics
from contextlib import ExitStack
from dataclasses import replace

from bench import contenders
from bench.contest import Loaded, on_floor
from bench.measure import SERVER_CORE, Effort, Entrant, load
from bench.report import Of, Row, bar, figure_row
from bench.servers import serving

BY_DEFAULT = "toolyard by default"
SHARE = 0.7
"""Of the highest rate."""


def memory(effort: Effort) -> list[Row]:
    """Calls over HTTP, a tenth as many as the ledger of `history` has. Flat: hardly more in the end than after a tenth
    of them."""
    with serving(contenders.toolyard(name=BY_DEFAULT, settings=None), SERVER_CORE) as server:
        entrants = [Entrant(server, server.contender.call)]
        (first,) = load(entrants, effort)
        tenth = replace(effort, seconds=effort.millions * 10_000 / first.rps, slice=0.5)
        made, held = first.sent, []
        for _ in range(10):
            made += load(entrants, tenth)[0].sent
            held.append((made, server.memory_mb()))
    (early, early_mb), (late, late_mb) = held[0], held[-1]
    flat = bar(Of.RATIO, "<=", 1.1)
    return [
        figure_row(f"memory after {early:,} calls", BY_DEFAULT, [early_mb], "{:.1f} MB"),
        figure_row(f"memory after {late:,} calls", BY_DEFAULT, [late_mb], "{:.1f} MB", flat, [early_mb]),
    ]


def pace(effort: Effort) -> list[Row]:
    """p99 at a fixed share of each one's own highest rate, which is found anew in each round: the machine drifts."""
    ours = contenders.toolyard(name=BY_DEFAULT, settings=None)
    late: list[list[float]] = [[], []]
    rates: list[list[float]] = [[], []]
    with ExitStack() as stack:
        loaded = [on_floor(), Loaded(ours, ours.call)]
        entrants = [Entrant(stack.enter_context(serving(each.who, SERVER_CORE)), each.what) for each in loaded]
        load(entrants, effort)
        for _ in range(effort.loose_rounds):
            paces = [sample.rps * SHARE for sample in load(entrants, effort)]
            samples = load(entrants, replace(effort, seconds=2 * effort.seconds, slice=effort.seconds), paces)
            for index, sample in enumerate(samples):
                late[index].append(sample.p99_ms)
                rates[index].append(paces[index])
    names = [f"{each.who.name}, at {statistics.median(rate):,.0f}/s" for each, rate in zip(loaded, rates, strict=True)]
    work = f"p99 at {SHARE:g} of the highest rate, open loop"
    return [
        figure_row(work, names[0], late[0], "{:.2f} ms"),
        figure_row(work, names[1], late[1], "{:.2f} ms", bar(Of.RATIO, "<=", 2.0), late[0]),
    ]
