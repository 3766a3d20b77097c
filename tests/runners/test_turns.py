"""Callers take turns for threads and child processes, and nobody that comes first has all of them."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from toolyard import Toolkit
from toolyard.model.caller import Caller
from toolyard.model.channel import QuietChannel
from toolyard.model.run import Run
from toolyard.model.tool import Tool
from toolyard.runners.loader import load
from toolyard.runners.processes import Processes
from toolyard.runners.threads import Threads
from toolyard.runners.turns import Seats, a_quarter
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import Settings

ADA, BOB, CAT = (Caller("acme", name) for name in ("ada", "bob", "cat"))
A_WHILE_S = 20
(SOURCE,) = load(str(Path(__file__).with_name("process_tools.py")))
CHILD = {tool.id: tool for tool in SOURCE.tools}

kit = Toolkit("Turns")
gate = threading.Event()
begun: list[str] = []


@kit.tool
def hold(name: str) -> str:
    """Runs until the gate is open."""
    begun.append(name)
    gate.wait(timeout=A_WHILE_S)
    return name


@kit.tool
def pass_by(name: str) -> str:
    """Notes that it ran."""
    begun.append(name)
    return name


HOLD, PASS = kit.tools


@pytest.fixture(autouse=True)
def closed_gate() -> Iterator[None]:
    gate.clear()
    begun.clear()
    yield
    gate.set()


def run_of(tool: Tool, caller: Caller, input: bytes = b"{}") -> Run:
    return Run(tool, "call", caller, {}, QuietChannel(), input_json=input)


def start(threads: Threads, tool: Tool, caller: Caller, name: str) -> "asyncio.Task[str]":
    return asyncio.create_task(threads.run({"name": name}, run_of(tool, caller)))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(A_WHILE_S):
            await scene()

    asyncio.run(within())


# -- the seats --------------------------------------------------------------------------------------


def test_a_seat_that_becomes_free_goes_to_the_next_caller() -> None:
    seats: Seats[str] = Seats(1, 0)
    assert seats.take("ada")
    for who in ("ada", "ada", "bob", "cat", "bob"):
        assert not seats.take(who)
        seats.join(who, who)
    order = []
    holder: str | None = "ada"
    while holder is not None:
        seats.give_back(holder)
        if (holder := seats.next()) is not None:
            order.append(holder)
    assert order == ["ada", "bob", "cat", "ada", "bob"]


def test_the_last_seats_are_for_who_has_none() -> None:
    seats: Seats[str] = Seats(4, 1)
    assert [seats.take("ada") for _ in range(4)] == [True, True, True, False]
    assert (seats.take("bob"), seats.take("bob"), seats.take("cat")) == (True, False, False)


def test_a_seat_for_newcomers_stays_free_for_them() -> None:
    seats: Seats[str] = Seats(4, 1)
    for _ in range(3):
        seats.take("ada")
    seats.take("bob")
    seats.join("ada", "ada's")
    seats.give_back("bob")
    assert seats.next() is None
    assert seats.take("cat")
    seats.give_back("ada")
    assert seats.next() is None
    seats.give_back("ada")
    assert (seats.next(), seats.next()) == ("ada's", None)


def test_what_one_gives_back_may_be_good_for_two() -> None:
    seats: Seats[str] = Seats(2, 1)
    assert seats.take("ada")
    assert seats.take("bob")
    seats.join("ada", "ada's")
    seats.join("bob", "bob's")
    seats.give_back("bob")
    assert (seats.next(), seats.next()) == ("bob's", None)
    seats.join("bob", "bob's second")
    seats.give_back("bob")
    seats.give_back("ada")
    assert {seats.next(), seats.next()} == {"ada's", "bob's second"}
    assert seats.next() is None


@pytest.mark.parametrize(("size", "kept"), [(1, 0), (2, 0), (3, 0), (4, 1), (32, 8)])
def test_a_small_server_keeps_none_for_newcomers(size: int, kept: int) -> None:
    assert a_quarter(size) == kept


# -- threads ----------------------------------------------------------------------------------------


def test_who_comes_later_has_a_thread_while_another_holds_all_it_may() -> None:
    async def scene() -> None:
        threads = Yard([kit], Settings(threads=4)).runners["thread"]
        assert isinstance(threads, Threads)
        holding = [start(threads, HOLD, ADA, f"ada {number}") for number in range(8)]
        await until(lambda: len(begun) == 3)
        assert await start(threads, PASS, BOB, "bob") == "bob"
        assert not any(task.done() for task in holding)
        gate.set()
        await asyncio.gather(*holding)
        await threads.close()

    play(scene)


def test_a_freed_thread_goes_to_the_next_caller_not_to_the_next_call() -> None:
    async def scene() -> None:
        threads = Threads(1)
        first = start(threads, HOLD, ADA, "held")
        await until(lambda: begun == ["held"])
        waiting = [start(threads, PASS, ADA, f"ada {number}") for number in range(3)]
        waiting += [start(threads, PASS, BOB, "bob"), start(threads, PASS, CAT, "cat")]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *waiting)
        assert begun == ["held", "ada 0", "bob", "cat", "ada 1", "ada 2"]
        await threads.close()

    play(scene)


def test_who_leaves_the_line_for_a_thread_gives_its_place_up() -> None:
    async def scene() -> None:
        threads = Threads(1)
        first = start(threads, HOLD, ADA, "held")
        await until(lambda: begun == ["held"])
        leaves, stays = start(threads, PASS, BOB, "leaves"), start(threads, PASS, BOB, "stays")
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        assert len(threads._seats._line) == 1
        gate.set()
        await asyncio.gather(first, stays)
        assert begun == ["held", "stays"]
        assert await start(threads, PASS, ADA, "after") == "after"
        await threads.close()

    play(scene)


def test_a_thread_that_was_given_up_is_its_callers_until_it_is_done() -> None:
    async def scene() -> None:
        threads = Threads(2, for_newcomers=1)
        given_up = start(threads, HOLD, ADA, "given up")
        await until(lambda: begun == ["given up"])
        given_up.cancel()
        await asyncio.wait([given_up])
        following = start(threads, PASS, ADA, "following")
        assert await start(threads, PASS, BOB, "bob") == "bob"
        assert begun == ["given up", "bob"]
        gate.set()
        assert await following == "following"
        await threads.close()

    play(scene)


def test_what_ends_after_its_loop_leaves_its_thread_to_the_next_loop() -> None:
    threads = Threads(1)

    async def leave() -> None:
        start(threads, HOLD, ADA, "held")
        await until(lambda: begun == ["held"])

    async def come_back() -> None:
        assert await start(threads, PASS, ADA, "after") == "after"
        await threads.close()

    play(leave)
    gate.set()
    while not threads._done:
        pass
    play(come_back)


# -- processes --------------------------------------------------------------------------------------


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def held(processes: Processes, caller: Caller, pipe: Path) -> "asyncio.Task[None]":
    return asyncio.create_task(processes.run({}, run_of(CHILD["Child.Hold"], caller, b'{"path":"%s"}' % bytes(pipe))))


def pid(processes: Processes, caller: Caller) -> "asyncio.Task[int]":
    return asyncio.create_task(processes.run({}, run_of(CHILD["Child.Pid"], caller)))


async def let_go(pipe: Path) -> None:
    """Returns once the tool that holds the pipe has opened it."""
    await asyncio.to_thread(pipe.write_text, "go")


def test_who_comes_later_has_a_process_while_another_holds_all_it_may(pipe: Path) -> None:
    async def scene() -> None:
        processes = Processes(2, for_newcomers=1)
        holds, waits = held(processes, ADA, pipe), pid(processes, ADA)
        await asyncio.sleep(0)
        assert await pid(processes, BOB) > 0
        assert not holds.done()
        assert not waits.done()
        await let_go(pipe)
        await asyncio.gather(holds, waits)
        await processes.close()

    play(scene)


def test_a_freed_process_goes_to_the_next_caller_not_to_the_next_call(pipe: Path) -> None:
    async def scene() -> None:
        processes = Processes(1)
        ended: list[str] = []
        holds = held(processes, ADA, pipe)
        await asyncio.sleep(0)
        waiting = [pid(processes, caller) for caller in (ADA, ADA, BOB)]
        names = dict(zip(waiting, ("ada 1", "ada 2", "bob"), strict=True))
        for task in waiting:
            task.add_done_callback(lambda done: ended.append(names[done]))
        await asyncio.sleep(0)
        await let_go(pipe)
        await asyncio.gather(holds, *waiting)
        assert ended == ["ada 1", "bob", "ada 2"]
        await processes.close()

    play(scene)


@pytest.mark.parametrize("as_its_turn_comes", [False, True])
def test_who_leaves_the_line_for_a_process_gives_its_place_up(pipe: Path, as_its_turn_comes: bool) -> None:
    async def scene() -> None:
        processes = Processes(1)
        holds = held(processes, ADA, pipe)
        await asyncio.sleep(0)
        leaves = pid(processes, BOB)
        await asyncio.sleep(0)
        if as_its_turn_comes:
            await until(lambda: bool(processes._busy))
            holds.cancel()
            await asyncio.sleep(0)  # `holds` has given its process back, and `leaves` has not gone on
            leaves.cancel()
        else:
            leaves.cancel()
            await let_go(pipe)
        await asyncio.wait([holds, leaves])
        assert leaves.cancelled()
        assert await pid(processes, CAT) > 0
        await processes.close()

    play(scene)
