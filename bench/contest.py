"""Servers side by side: everybody who comes up is loaded in turn, and compared to the first."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TypeVar

from bench import contenders
from bench.contenders import Installed, install
from bench.measure import SERVER_CORE, Effort, Entrant, interleave, load
from bench.report import Bar, Row, missing, rate_row
from bench.servers import Contender, Exchange, ServerError, serving

Loaded = tuple[Contender, Exchange]
P = TypeVar("P", bound=Installed)


def on_floor() -> Loaded:
    floor = contenders.floor()
    return floor, floor.call


def contest(work: str, loaded: list[Loaded], effort: Effort, bar: Bar | None = None) -> list[Row]:
    """Everybody who comes up, against the first. The bar is for the last."""
    with ExitStack() as stack:
        entrants = [entered(stack, who, what, effort) for who, what in loaded]
        taken = iter(interleave([entrant for entrant in entrants if entrant], effort))
    samples = [next(taken) if entrant else None for entrant in entrants]
    rows = []
    for index, ((who, _), mine) in enumerate(zip(loaded, samples, strict=True)):
        mine_to_meet = bar if index == len(loaded) - 1 else None
        if mine is None or (index and samples[0] is None):
            rows.append(missing(work, who.name, "no figure", mine_to_meet))
        else:
            rows.append(rate_row(work, who.name, mine, samples[0] if index else None, mine_to_meet))
    return rows


def entered(stack: ExitStack, who: Contender, what: Exchange, effort: Effort) -> Entrant | None:
    """Its server, warm and up for as long as the stack, if it answers rightly, also under load."""
    try:
        server = stack.enter_context(serving(who, SERVER_CORE))
        server.ask(what)
        entrant = Entrant(server, what)
        load([entrant], effort)
    except ServerError as error:
        complain(error)
        return None
    return entrant


def invited(work: str, some: Sequence[P]) -> tuple[list[P], list[Row]]:
    """The peers that are or could be installed, and a row for each that could not."""
    able: list[P] = []
    unable: list[Row] = []
    for peer in some:
        try:
            install(peer)
            able.append(peer)
        except ServerError as error:
            complain(error)
            unable.append(missing(work, peer.name, "could not be installed"))
    return able, unable


def complain(error: ServerError) -> None:
    """The details are for the terminal; the table says only that there is no figure."""
    print(f"! {error}", file=sys.stderr, flush=True)
