"""Servers side by side: everybody who comes up is loaded in turn, and compared to the first."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

from bench import contenders
from bench.contenders import Installed, install
from bench.measure import SERVER_CORE, Effort, Entrant, interleave, load
from bench.report import Bar, Row, load_row
from bench.servers import Contender, Exchange, ServerError, serving

P = TypeVar("P", bound=Installed)


class Loaded(NamedTuple):
    """Who is to be loaded, with what, and what is to come of it."""

    who: Contender
    what: Exchange
    bar: Bar | None = None


def on_floor() -> Loaded:
    floor = contenders.floor()
    return Loaded(floor, floor.call)


def contest(work: str, loaded: list[Loaded], effort: Effort) -> list[Row]:
    """Everybody who comes up, against the first."""
    with ExitStack() as stack:
        entrants = [entered(stack, each, effort) for each in loaded]
        taken = iter(interleave([entrant for entrant in entrants if entrant], effort))
    samples = [next(taken) if entrant else None for entrant in entrants]
    rows = []
    for index, (each, mine) in enumerate(zip(loaded, samples, strict=True)):
        if mine is None or (index and samples[0] is None):
            rows.append(Row(work, each.who.name, "no figure", bar=each.bar))
        else:
            rows.append(load_row(work, each.who.name, mine, samples[0] if index else None, each.bar))
    return rows


def entered(stack: ExitStack, loaded: Loaded, effort: Effort) -> Entrant | None:
    """Its server, warm and up for as long as the stack, if it answers rightly, also under load."""
    try:
        server = stack.enter_context(serving(loaded.who, SERVER_CORE))
        server.ask(loaded.what)
        entrant = Entrant(server, loaded.what)
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
            unable.append(Row(work, peer.name, "could not be installed"))
    return able, unable


def complain(error: ServerError) -> None:
    """The details are for the terminal; the table says only that there is no figure."""
    print(f"! {error}", file=sys.stderr, flush=True)
