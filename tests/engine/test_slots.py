"""Callers take turns at a tool's concurrent runs, and one that fills the line loses its last place to another."""

import asyncio
from collections.abc import Callable

import pytest

from tests.test_catalogue import tool
from toolyard.engine.concurrency import Slots
from toolyard.model.caller import Caller, CurrentView, View
from toolyard.model.channel import QuietChannel
from toolyard.model.errors import Busy, Forbidden, NotAuthenticated
from toolyard.model.tool import Tool

TOOL = tool("Kit", "Tool")
MANY, FEW = Caller("default", "many"), Caller("default", "few")


async def run(slots: Slots, caller: Caller, ended: list[str]) -> None:
    async with slots.turn(caller, QuietChannel()):
        await asyncio.sleep(0)
        ended.append(caller.subject)


def test_callers_take_turns() -> None:
    async def scenario() -> None:
        slots, ended = Slots(TOOL, 1, 10, 100, None), list[str]()
        await asyncio.gather(*(run(slots, caller, ended) for caller in [MANY] * 6 + [FEW] * 2))
        assert ended == ["many", "many", "few", "many", "few", "many", "many", "many"]

    asyncio.run(scenario())


def test_who_fills_the_line_makes_room_for_another() -> None:
    async def scenario() -> None:
        slots, ended = Slots(TOOL, 1, 10, 4, None), list[str]()
        async with slots.turn(MANY, QuietChannel()):
            many = [asyncio.create_task(run(slots, MANY, ended)) for _ in range(4)]
            await asyncio.sleep(0)
            few = [asyncio.create_task(run(slots, FEW, ended)) for _ in range(3)]
            await asyncio.sleep(0)
        results = await asyncio.gather(*many, *few, return_exceptions=True)
        refused = [number for number, result in enumerate(results) if isinstance(result, Busy)]
        assert refused == [2, 3, 6], "each has two places in a line of four"
        assert sorted(ended) == ["few"] * 2 + ["many"] * 2

    asyncio.run(scenario())


def test_a_place_that_was_left_is_nobodys() -> None:
    async def scenario() -> None:
        slots, ended = Slots(TOOL, 1, 0.05, 4, None), list[str]()
        async with slots.turn(MANY, QuietChannel()):
            with pytest.raises(Busy, match="busy"):
                await run(slots, FEW, ended)
            waiting = asyncio.create_task(run(slots, FEW, ended))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await run(slots, FEW, ended)
        assert ended == ["few"]

    asyncio.run(scenario())


class Credentials(QuietChannel):
    """Those of a client that waits, until they end."""

    def __init__(self) -> None:
        super().__init__()
        self.watching: list[Callable[[], None]] = []

    def when_expired(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.watching.append(callback)
        return lambda: self.watching.remove(callback)

    def end(self) -> None:
        for callback in list(self.watching):
            callback()


@pytest.mark.parametrize("is_its_turn", [False, True], ids=["in line", "just as its turn comes"])
def test_whose_credentials_end_loses_its_place(is_its_turn: bool) -> None:
    async def scenario() -> None:
        slots, ended, credentials = Slots(TOOL, 1, 10, 100, None), list[str](), Credentials()

        async def refused() -> None:
            async with slots.turn(MANY, credentials):
                ended.append("refused")

        async with slots.turn(MANY, QuietChannel()):
            waiting = asyncio.create_task(refused())
            await asyncio.sleep(0)
            after = asyncio.create_task(run(slots, FEW, ended))
            await asyncio.sleep(0)
            if not is_its_turn:
                credentials.end()
        credentials.end()
        with pytest.raises(NotAuthenticated):
            await waiting
        await after
        await run(slots, MANY, ended)
        assert (ended, credentials.watching) == (["few", "many"], [])

    asyncio.run(scenario())


def test_whose_credentials_are_for_the_tool_no_more_loses_its_place() -> None:
    class Blind(View):
        def lists(self, tool: Tool) -> bool:
            return False

    async def scenario() -> None:
        slots, ended, current = Slots(TOOL, 1, 10, 100, None), list[str](), CurrentView()
        async with slots.turn(MANY, QuietChannel()):
            waiting = asyncio.create_task(run(slots, Caller("default", "narrowed", current=current), ended))
            await asyncio.sleep(0)
            current.view = Blind()
        with pytest.raises(Forbidden, match=r"not for Kit\.Tool any more"):
            await waiting
        await run(slots, FEW, ended)
        assert ended == ["few"]

    asyncio.run(scenario())


def test_a_run_that_is_free_is_had_however_long_the_ledger_takes_to_say_so() -> None:
    """Nobody stands in line for it. What the ledger has given is not forgotten: no other node could have it."""

    class Slow:
        """A ledger that answers once its other calls have had their time."""

        async def take_slot(self, tool: str, most: int) -> bool:
            taken.append(tool)
            await answers.wait()
            return True

        async def give_slot(self, tool: str) -> None:
            taken.remove(tool)

    answers, taken, ended = asyncio.Event(), list[str](), list[str]()

    async def scenario() -> None:
        slots = Slots(TOOL, 1, 0.01, 100, Slow())  # type: ignore[arg-type]
        first = asyncio.create_task(run(slots, MANY, ended))
        await asyncio.sleep(0)
        with pytest.raises(Busy):  # which shows that so long has passed
            await run(slots, FEW, ended)
        assert not first.done()
        answers.set()
        await first
        await asyncio.gather(*slots._giving)
        assert (ended, taken) == (["many"], [])

    asyncio.run(scenario())


def test_who_waits_for_other_nodes_too_long_is_told_so() -> None:
    class Taken:
        async def take_slot(self, tool: str, most: int) -> bool:
            return False

    async def scenario() -> None:
        slots = Slots(TOOL, 1, 0.01, 100, Taken())  # type: ignore[arg-type]
        for _ in range(2):  # and the run of this node is free again
            with pytest.raises(Busy, match="busy"):
                async with slots.turn(MANY, QuietChannel()):
                    pass

    asyncio.run(scenario())


def test_on_all_nodes_together_credentials_end_a_wait_too() -> None:
    class Elsewhere:
        """A ledger in which other nodes have all the runs."""

        def __init__(self) -> None:
            self.looked = 0

        async def take_slot(self, tool: str, most: int) -> bool:
            self.looked += 1
            credentials.end()
            return False

    credentials = Credentials()

    async def scenario() -> None:
        store = Elsewhere()
        slots = Slots(TOOL, 1, 10, 100, store)  # type: ignore[arg-type]
        for _ in range(2):  # and the run of this node is free again
            with pytest.raises(NotAuthenticated):
                async with slots.turn(MANY, credentials):
                    pass
        assert store.looked == 2

    asyncio.run(scenario())
