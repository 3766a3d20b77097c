"""What one caller, and all of them together, may have of the server's memory by bodies that are not worked on yet.

A body is whole in memory before anything looks at it; without a bound, 250 connections that send all of theirs but the
last byte would hold a gigabyte. So a large one has its room before it is read: as much as its header announces, or as
much as a body may have where that says nothing. Its room is free again when its turn has come, or its request is over;
it must have arrived by `body_timeout_s`. Small bodies, and those that come together with their header, never come here.

Who has no room is refused, and not held: what it waits for may be a client that never sends the rest. A caller that
holds nothing is always let in, however full the server is: others who are greedy keep nobody from being served.
"""

from collections import Counter

from ...model.errors import LimitReached, Unavailable
from .exchange import Exchange

MOST_OF_A_CALLER = 64 * 2**20
MOST_IN_ALL = 256 * 2**20
RETRY_MS = 1000
"""When one who was refused may come back: nobody knows when a body is complete."""


class BodyBudget:
    """Counts the bytes of large bodies that arrive, or wait for their turn. Those who are no callers, such as people
    who send a form, count as one."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: the largest body; there is room for one in any case."""
        self._most, self._most_in_all = max(MOST_OF_A_CALLER, max_bytes), max(MOST_IN_ALL, max_bytes)
        self._sizes: dict[Exchange, int] = {}
        self._held: Counter[tuple[str, str]] = Counter()

    def hold(self, exchange: Exchange, size: int) -> None:
        """Makes room for a request's body, until `release` or the request's end. Raises LimitReached where the caller
        has too much, and Unavailable where all together have."""
        whose = _whose(exchange)
        held = self._held[whose]
        if held + size > self._most:
            raise LimitReached(
                "Too many large requests at once; try again in a second",
                retry_after_ms=RETRY_MS,
                developer_message=f"bodies of one caller may have {self._most} bytes together until they are read",
            )
        if held and self._held.total() + size > self._most_in_all:
            raise Unavailable("The server has too many large requests at once", retry_after_ms=RETRY_MS)
        self._held[whose] += size
        self._sizes[exchange] = size
        exchange.at_end.append(lambda: self.release(exchange))

    def release(self, exchange: Exchange) -> None:
        """The body is worked on now, or nobody wants it any more; does nothing for one that has no room."""
        size = self._sizes.pop(exchange, 0)
        if size:
            whose = _whose(exchange)
            self._held[whose] -= size
            if not self._held[whose]:
                del self._held[whose]


def _whose(exchange: Exchange) -> tuple[str, str]:
    return exchange.caller.tenant, exchange.caller.subject
