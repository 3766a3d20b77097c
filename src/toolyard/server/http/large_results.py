"""Turns and places for the large results of tools that run here.

To check, scrub and encode a large result takes time on the loop, and the encoded one takes memory until it is written
to its client and to the ledger. So results are worked on one at a time, callers take turns, and the loop serves others
in between; and each caller has a few of them in memory, however many of its calls end in the same moment. A result that
has to wait does so as what its tool returned, which is its author's.

How large a text is can be seen at once. What else a tool returns is known when it is encoded; from a result that was
large then, the tool's next ones wait for their turn before anybody looks through them, until one was small again.
"""

from typing import Any

from msgspec import Raw

from ...model.run import Run
from ...model.tool import Tool
from ...runners.attempt import LARGE_RESULT
from .reply_budget import Place, ReplyBudget
from .turns import Turns


class HeldPlace:
    """A place that several may hold (a `ResultPlace`), and the attempt to begin with."""

    def __init__(self, place: Place) -> None:
        self._place, self._holders = place, 1

    def hold(self) -> None:
        self._holders += 1

    def give(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._place.give()


class LargeResults:
    """Whose large result is worked on (`ResultTurns`)."""

    def __init__(self, replies: ReplyBudget) -> None:
        self._replies, self._turns = replies, Turns()
        self._tools: set[str] = set()
        """Those whose last result was large, by their references."""

    def may_be_large(self, tool: Tool, value: Any) -> bool:
        if type(value) is str or type(value) is Raw:
            return len(value) > LARGE_RESULT
        return bool(self._tools) and tool.reference in self._tools

    async def turn(self, run: Run) -> "LargeResult":
        """What is in the ledger already is written there and let go of: the unread replies of its caller are no reason
        to wait."""
        self._tools.add(run.tool.reference)
        take = self._replies.place if run.seq == 0 else self._replies.ledger_place
        run.place = HeldPlace(await take(run.caller))
        await self._turns.wait_for(run.caller)
        return LargeResult(self._turns, self._tools, run.tool.reference)


class LargeResult:
    """A result whose turn it is (a `ResultTurn`)."""

    def __init__(self, turns: Turns, tools: set[str], tool: str) -> None:
        self._turns, self._tools, self._tool = turns, tools, tool
        self._number = turns.begin()

    def end(self, size: int) -> None:
        if size <= LARGE_RESULT:
            self._tools.discard(self._tool)
        self._turns.end(self._number)
