"""Query parameters of a request, read and checked, for every route that takes some. What is wrong with one is a
validation error that names it, as for a member of a body.
"""

from ...engine.wait import Wait
from ...model.channel import QuietChannel
from ...model.errors import InvalidInput, Problem
from ...model.lifecycle import State
from ...text.percent import parameters
from .exchange import Exchange

LONGEST_WAIT_S = 60.0
"""How long a client may have a request wait: proxies and clients cut off those that are silent for longer."""
LONGEST_QUERY = 8 * 2**10
MOST = 200
"""Items of a page."""


def text(exchange: Exchange, name: str) -> str | None:
    """A parameter as it came; of several with the name, the last. None where there is none."""
    values = [value for each, value in pairs(exchange.query) if each == name]
    return values[-1] if values else None


def pairs(query: bytes) -> list[tuple[str, str]]:
    """The parameters in their order. Raises InvalidInput where they are too many, or too long: they cost time before it
    is known who asks."""
    if len(query) > LONGEST_QUERY:
        raise InvalidInput((Problem("query", f"Has at most {LONGEST_QUERY} bytes"),))
    try:
        return parameters(query.decode("latin-1"))
    except ValueError as error:
        raise InvalidInput((Problem("query", str(error)),)) from None


def state(exchange: Exchange, default: State | None = None) -> State | None:
    """The state to list calls of. Raises InvalidInput."""
    given = text(exchange, "state")
    if given is None:
        return default
    if given not in State.__members__:
        raise InvalidInput((Problem("state", f"Must be one of {', '.join(State)}"),))
    return State(given)


def number(exchange: Exchange, name: str, default: float, lowest: float, highest: float) -> float:
    """A number within bounds. Raises InvalidInput."""
    given = text(exchange, name)
    try:
        found = default if given is None else float(given)
    except ValueError:
        found = float("nan")  # which is within no bounds
    if not lowest <= found <= highest:
        raise InvalidInput((Problem(name, f"Must be a number from {lowest:g} to {highest:g}"),))
    return found


def wait(exchange: Exchange) -> Wait:
    """How long the client will wait for what it asks for, while it is there and its credentials are good."""
    seconds = number(exchange, "wait", 0.0, 0.0, LONGEST_WAIT_S)
    return Wait(seconds, exchange if seconds else QuietChannel(), only_waits=seconds > 0)


def limit(exchange: Exchange, default: int) -> int:
    """How many items the client wants. Raises InvalidInput."""
    return int(number(exchange, "limit", default, 1, MOST))


def cursor(exchange: Exchange) -> int | None:
    """The number of the row that an earlier page ended with. Raises InvalidInput."""
    given = text(exchange, "cursor")
    if given is None:
        return None
    # Eighteen digits fit the 64-bit numbers of rows. `isdigit` alone would take digits of other scripts.
    if not (given.isascii() and given.isdigit() and len(given) <= 18):
        raise InvalidInput((Problem("cursor", "Must be the cursor of an earlier list"),))
    return int(given)
