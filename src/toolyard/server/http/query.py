"""Query parameters, checked."""

from urllib.parse import parse_qs

from ...engine.wait import Wait
from ...model.channel import QuietChannel
from ...model.errors import InvalidInput, Problem
from ...model.lifecycle import State
from . import query
from .exchange import Exchange

LONGEST_WAIT_S = 60.0
MOST = 200


def text(exchange: Exchange, name: str) -> str | None:
    values = parse_qs(exchange.query.decode("latin-1"), keep_blank_values=True).get(name)
    return values[-1] if values else None


def state(exchange: Exchange, default: State | None = None) -> State | None:
    given = text(exchange, "state")
    if given is None:
        return default
    if given not in State.__members__:
        raise InvalidInput((Problem("state", f"Must be one of {', '.join(State)}"),))
    return State(given)


def number(exchange: Exchange, name: str, default: float, lowest: float, highest: float) -> float:
    given = text(exchange, name)
    try:
        found = default if given is None else float(given)
    except ValueError:
        found = float("nan")
    if not lowest <= found <= highest:
        raise InvalidInput((Problem(name, f"Must be a number from {lowest:g} to {highest:g}"),))
    return found


def wait(exchange: Exchange) -> Wait:
    """How long the client will wait for what it asks for, while it is there and its credentials are good."""
    seconds = number(exchange, "wait", 0.0, 0.0, LONGEST_WAIT_S)
    return Wait(seconds, exchange if seconds else QuietChannel())


def limit(exchange: Exchange, default: int) -> int:
    return int(number(exchange, "limit", default, 1, MOST))


def cursor(exchange: Exchange) -> int | None:
    given = query.text(exchange, "cursor")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise InvalidInput((Problem("cursor", "Must be the cursor of an earlier list"),))
    return int(given)
