"""Requests that a client sends before it has read the replies to those before them."""

import asyncio

from toolyard.server.http import fast_path
from toolyard.server.http.uvicorn_protocol import MOST_WAITING, Cycle, PoliteProtocol
from toolyard.wires.contract import Reply

from .connection import connection

REQUEST = b"GET /docs HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_client_that_does_not_read_is_answered_one_request() -> None:
    async def scenario() -> None:
        async def answer(cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
            cycle.outbox.starting -= 1
            protocol.pause_writing()  # as a transport does when its client does not read
            fast_path.write(cycle, Reply(200, b"the reply", []))
            tasks.discard(cycle.task)

        protocol: PoliteProtocol
        protocol, line = connection(answer)
        protocol.data_received(REQUEST * 3)
        for answered in (1, 2, 3, 3):
            for _ in range(5):
                await asyncio.sleep(0)
            assert line.written.count(b"the reply") == answered
            protocol.resume_writing()

    asyncio.run(scenario())


def test_a_connection_on_which_too_many_wait_ends_with_the_last_of_them() -> None:
    async def scenario() -> None:
        async def answer(cycle: Cycle, tasks: "set[asyncio.Task[None]]") -> None:
            cycle.outbox.starting -= 1
            fast_path.write(cycle, Reply(200, b"the reply", []))
            tasks.discard(cycle.task)

        protocol, line = connection(answer)
        protocol.data_received(REQUEST * 3000)
        assert len(protocol.pipeline) == MOST_WAITING
        for _ in range(3 * MOST_WAITING):
            await asyncio.sleep(0)
        assert line.written.count(b"the reply") == MOST_WAITING + 1
        assert line.is_closing()

    asyncio.run(scenario())
