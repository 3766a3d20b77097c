"""Large results of tools are worked on in turns, and each caller has a few of them in memory."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.engine.room import ADA, BOB, Room
from toolyard import Toolkit
from toolyard.model.call import Outcome
from toolyard.model.channel import QuietChannel
from toolyard.runners.attempt import LARGE_RESULT
from toolyard.server.http.large_results import LargeResults
from toolyard.server.http.reply_budget import MOST_READS, MOST_UNSENT, ReplyBudget
from toolyard.server.http.turns import ROUNDS

kit = Toolkit("Kit")
LARGE = {"size": LARGE_RESULT + 1}


@kit.tool
async def text(size: int) -> str:
    """As long as that."""
    return "x" * size


@kit.tool(concurrency=1)
async def narrow(size: int) -> str:
    """The same, one at a time."""
    return "x" * size


@kit.tool
async def numbers(size: int) -> list[int]:
    """How large they are nobody sees before they are encoded."""
    return [1] * size


class Client(QuietChannel):
    """Whose request is over when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over: list[Callable[[], None]] = []

    def when_answered(self, callback: Callable[[], None]) -> None:
        self.is_over.append(callback)

    def read(self) -> None:
        for callback in self.is_over:
            callback()
        self.is_over.clear()


async def settle() -> None:
    for _ in range(20 * ROUNDS):
        await asyncio.sleep(0)


def ended(calls: "list[asyncio.Task[Outcome]]") -> list[bool]:
    return [call.done() for call in calls]


async def test_a_caller_has_a_few_until_they_are_sent_and_recorded() -> None:
    async with Room(kit, turns=LargeResults(ReplyBudget())) as room:
        clients = [Client() for _ in range(MOST_READS + 2)]
        calls = [room.call("Kit.Text", LARGE, channel=client) for client in clients]
        others = room.call("Kit.Text", LARGE, channel=Client(), caller=BOB)
        small = room.call("Kit.Text", {"size": 1})
        await settle()
        first, rest = [True] * MOST_READS, [False] * 2
        assert (ended(calls), others.done(), small.done()) == ([*first, *rest], True, True)
        clients[0].read()
        await settle()
        assert ended(calls) == [*first, *rest], "it is not written yet"
        await room.behind.flush()
        await settle()
        assert ended(calls) == [*first, True, False]
        clients[1].read()
        await settle()
        assert ended(calls) == [*first, True, True], "what was written before it was sent"
        assert {len(call.result().value or b"") for call in calls} == {LARGE_RESULT + 3}
        for client in clients:
            client.read()
        await room.behind.flush()
        later = [room.call("Kit.Text", LARGE) for _ in range(MOST_READS)]
        await settle()
        assert all(ended(later)), "there is room again"


async def test_one_is_worked_on_at_a_time_and_the_loop_goes_round_in_between() -> None:
    async with Room(kit, turns=LargeResults(ReplyBudget())) as room:
        calls = [room.call("Kit.Text", LARGE, caller=caller) for caller in (ADA, BOB)]
        seen: list[int] = []
        while not all(ended(calls)):
            seen.append(sum(ended(calls)))
            await asyncio.sleep(0)
        assert seen.count(1) >= ROUNDS


async def test_what_has_a_key_waits_for_no_client_but_for_the_ledger() -> None:
    budget = ReplyBudget()
    async with Room(kit, turns=LargeResults(budget)) as room:
        sent = budget.hold(ADA, MOST_UNSENT)
        plain = room.call("Kit.Text", LARGE)
        keyed = [room.call("Kit.Text", LARGE, f"k{number}") for number in range(MOST_READS + 2)]
        await asyncio.gather(*keyed)
        assert not plain.done()
        sent()
        await plain


async def test_the_results_of_a_tool_that_gave_a_large_one_wait_before_they_are_encoded() -> None:
    turns = LargeResults(ReplyBudget())
    async with Room(kit, turns=turns) as room:
        tool = room.engine.resolve("Kit.Numbers", ADA)
        assert not turns.may_be_large(tool, [1])
        await room.call("Kit.Numbers", {"size": LARGE_RESULT})
        assert turns.may_be_large(tool, [1])
        await room.call("Kit.Numbers", {"size": 1})
        assert not turns.may_be_large(tool, [1])


async def test_who_is_cancelled_while_it_waits_takes_nobodys_place() -> None:
    async with Room(kit, turns=LargeResults(ReplyBudget())) as room:
        clients = [Client() for _ in range(MOST_READS + 2)]
        calls = [room.call("Kit.Text", LARGE, channel=client) for client in clients]
        await settle()
        calls[-2].cancel()
        for client in clients[:MOST_READS]:
            client.read()
        await room.behind.flush()
        done: Any = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in done[-2:]] == [asyncio.CancelledError, Outcome]


async def test_a_result_that_waits_is_no_run_of_its_tool_any_more() -> None:
    budget = ReplyBudget()
    async with Room(kit, turns=LargeResults(budget)) as room:
        sent = budget.hold(ADA, MOST_UNSENT)
        waiting = room.call("Kit.Narrow", LARGE)
        await settle()
        for _ in range(2):
            await room.call("Kit.Narrow", {"size": 1}, caller=BOB)
        assert not waiting.done()
        sent()
        await waiting
        await room.call("Kit.Narrow", {"size": 1}, caller=BOB)
