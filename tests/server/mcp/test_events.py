"""What waits for a client that does not read its stream."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from toolyard.server.mcp.transports.http_stream import MOST_WAITING, Events

from .conftest import Connect
from .schemas import REVISIONS

QUARTER = MOST_WAITING // 4


def notice(number: int) -> bytes:
    return b"%d" % number * QUARTER


async def rest(events: Events) -> bytes:
    return b"".join([chunk async for chunk in events.chunks()])


def test_of_too_many_notifications_the_newest_are_kept_and_everything_else() -> None:
    async def play() -> None:
        events = Events()
        events.put(b"<question>")
        for number in range(1, 10):
            events.put(notice(number), is_optional=True)
        events.put(b"<result>")
        events.close()
        assert await rest(events) == b"<question>" + b"".join(map(notice, (6, 7, 8, 9))) + b"<result>"

    asyncio.run(play())


def test_the_newest_notification_is_kept_however_large_it_is() -> None:
    async def play() -> None:
        events = Events()
        for number in (1, 2):
            events.put(b"%d" % number * 2 * MOST_WAITING, is_optional=True)
        events.close()
        assert await rest(events) == b"2" * 2 * MOST_WAITING

    asyncio.run(play())


def test_what_was_read_makes_room() -> None:
    async def play() -> None:
        events = Events()
        chunks = events.chunks()
        for number in range(1, 10):
            events.put(notice(number), is_optional=True)
            assert await anext(chunks) == notice(number)

    asyncio.run(play())


def test_nothing_is_held_for_a_client_that_has_gone() -> None:
    async def play() -> None:
        events = Events()
        chunks = cast(AsyncGenerator[bytes, None], events.chunks())
        events.put(b"one")
        assert await anext(chunks) == b"one"
        events.put(b"two")
        await chunks.aclose()
        events.put(b"three", is_optional=True)
        events.put(b"<result>")
        assert not events._waiting

    asyncio.run(play())


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_token_is_short_since_each_notice_says_it_again(client: Connect, name: str, revision: str) -> None:
    error = client(revision).act(name, meta={"progressToken": "p" * 1025}).error()
    assert error["code"] == -32602
    assert "progressToken" in error["message"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_id_is_short_since_each_event_says_it_again(client: Connect, revision: str) -> None:
    message = {"jsonrpc": "2.0", "id": "i" * 1025, "method": "ping"}
    error = client(revision).post(message).error()
    assert error["code"] == -32600
