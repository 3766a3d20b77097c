"""Large bodies that are not worked on yet are bounded, by caller and in all; small ones are not counted."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from toolyard.model.caller import Caller
from toolyard.model.errors import BodyTooLarge, LimitReached, Unavailable
from toolyard.model.json_bounds import JsonBounds
from toolyard.server.http.body import BodyReader
from toolyard.server.http.body_budget import MOST_IN_ALL, MOST_OF_A_CALLER
from toolyard.server.http.exchange import Exchange
from toolyard.server.http.turns import LARGE_BODY

from ..asking import run
from ..talking import route, said, shell
from .test_turns import Line, on_a_loop

LARGEST = 4 * 2**20


class Sender:
    """A client that sends pieces of a body, and never its end."""

    def __init__(self, reader: BodyReader, subject: str, pieces: Sequence[bytes], announced: int | None = None) -> None:
        headers = {} if announced is None else {b"content-length": b"%d" % announced}
        self.exchange = Exchange({"query_string": b""}, "/", headers, None, Line())
        self.exchange.caller = Caller("t", subject)
        self._pieces = list(pieces)
        self.task = asyncio.create_task(reader.read(self.exchange, self._receive))

    async def _receive(self) -> dict[str, Any]:
        if not self._pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": self._pieces.pop(0), "more_body": True}


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def sends(reader: BodyReader, subject: str, count: int) -> list[Sender]:
    return [Sender(reader, subject, [b"{"], LARGEST) for _ in range(count)]


@on_a_loop
async def test_a_caller_has_so_much_unfinished_and_others_do_not_wait_for_it() -> None:
    reader = BodyReader(LARGEST, JsonBounds())
    senders = sends(reader, "a", MOST_OF_A_CALLER // LARGEST)
    refused, other = sends(reader, "a", 1)[0], sends(reader, "b", 1)[0]
    await settle()
    assert not any(sender.task.done() for sender in [*senders, other])
    with pytest.raises(LimitReached):
        refused.task.result()
    senders[0].exchange.end()
    again = sends(reader, "a", 1)[0]
    await settle()
    assert not again.task.done()


@on_a_loop
async def test_all_have_so_much_together_but_one_who_has_nothing_is_let_in() -> None:
    reader = BodyReader(LARGEST, JsonBounds())
    each = MOST_OF_A_CALLER // LARGEST
    callers = MOST_IN_ALL // MOST_OF_A_CALLER - 1
    for number in range(callers):
        sends(reader, f"greedy{number}", each)
    first = sends(reader, "a", each)
    late, second = sends(reader, "b", 2)
    await settle()
    assert not any(sender.task.done() for sender in [*first, late])
    with pytest.raises(Unavailable):
        second.task.result()


@on_a_loop
async def test_a_body_of_unknown_length_counts_as_the_largest_once_it_is_large() -> None:
    reader = BodyReader(LARGEST, JsonBounds())
    small = [Sender(reader, "a", [b"x" * (LARGE_BODY - 1), b"x"]) for _ in range(100)]
    await settle()
    assert not any(sender.task.done() for sender in small)
    large = [Sender(reader, "a", [b"x" * LARGE_BODY, b"x"]) for _ in range(MOST_OF_A_CALLER // LARGEST + 1)]
    await settle()
    assert [sender.task.done() for sender in large] == [False] * (len(large) - 1) + [True]
    assert large[-1].exchange.body == b"x" * LARGE_BODY  # tells whose words the refusal should be in


@on_a_loop
async def test_the_largest_body_there_may_be_has_room() -> None:
    reader = BodyReader(2 * MOST_IN_ALL, JsonBounds())
    sender = Sender(reader, "a", [b"{"], 2 * MOST_IN_ALL)
    await settle()
    assert not sender.task.done()
    with pytest.raises(BodyTooLarge):
        await Sender(reader, "a", [b"{"], 2 * MOST_IN_ALL + 1).task


def test_a_body_that_is_worked_on_makes_room_for_the_next() -> None:
    """Its handler may take its time, and is bounded by other limits."""

    async def test() -> None:
        over, begun = asyncio.Event(), asyncio.Semaphore(0)

        async def slow(_: Exchange) -> Any:
            begun.release()
            await over.wait()
            return said("done")

        app = shell(route("POST", "/slow", slow))
        count, size = MOST_OF_A_CALLER // 2**20 + 2, 2**20
        statuses: list[int] = []

        async def post() -> None:
            pieces = [b" " * (size - 2), b"{}"]

            async def receive() -> Any:
                return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            headers = [(b"content-length", b"%d" % size), (b"content-type", b"application/json")]
            scope = {"type": "http", "method": "POST", "path": "/slow", "query_string": b"", "headers": headers}
            await app(scope, receive, send)

        posts = []
        for _ in range(count):
            posts.append(asyncio.create_task(post()))
            await begun.acquire()
        over.set()
        await asyncio.gather(*posts)
        assert statuses == [200] * count

    run(test)
