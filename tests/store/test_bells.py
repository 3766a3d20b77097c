"""Hints, without a store: who listens, and how long."""

import asyncio
from collections.abc import Callable

from toolyard.store.hints import Hints, Topic


def test_listeners_hear_their_topic_and_key_until_they_forget_it() -> None:
    hints, heard = Hints(), list[str]()
    forget = hints.watch(Topic.ENDED, 1, lambda: heard.append("first"))
    forget_too = hints.watch(Topic.ENDED, 1, lambda: heard.append("second"))
    hints.tell(Topic.ENDED, 1)
    hints.tell(Topic.ENDED, 2)
    hints.tell(Topic.SESSION, 1)
    assert heard == ["first", "second"]
    assert hints.watched(Topic.ENDED) == [1]
    for _ in range(2):
        forget()
    hints.tell(Topic.ENDED, 1)
    assert heard == ["first", "second", "second"]
    forget_too()
    assert hints.watched(Topic.ENDED) == []


def test_who_forgets_late_does_not_take_the_place_of_a_newer_listener() -> None:
    hints, heard = Hints(), list[str]()
    forget = hints.watch(Topic.PENDING, "", lambda: heard.append("old"))
    forget()
    hints.watch(Topic.PENDING, "", lambda: heard.append("new"))
    forget()
    hints.tell(Topic.PENDING)
    assert heard == ["new"]


def test_a_listener_may_forget_while_it_is_told() -> None:
    hints, heard = Hints(), list[str]()
    forgets: list[Callable[[], None]] = []

    def once() -> None:
        heard.append("once")
        forgets.pop()()

    forgets.append(hints.watch(Topic.PENDING, "", once))
    hints.watch(Topic.PENDING, "", lambda: heard.append("always"))
    for _ in range(2):
        hints.tell(Topic.PENDING)
    assert heard == ["once", "always", "always"]


async def test_a_bell_rings_once_for_any_number_of_hints(runner: asyncio.Runner) -> None:
    hints = Hints()
    with hints.waiting(Topic.SESSION, "s") as bell:
        for _ in range(3):
            hints.tell(Topic.SESSION, "s")
        assert await bell.wait(5)
        assert not await bell.wait(0.001)
        asyncio.get_running_loop().call_soon(hints.tell, Topic.SESSION, "s")
        assert await bell.wait(5)
    assert hints.watched(Topic.SESSION) == []
