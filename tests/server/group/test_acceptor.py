"""Processes that accept from one socket take turns, and nobody waits for one that does not take its own."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from toolyard.server.group.acceptor import AHEAD, BEHIND, Acceptor, Secure
from toolyard.server.group.shares import ABSENT, Shares
from toolyard.server.http.connection_limits import ConnectionLimits

from ..certificates import signed


class Member:
    """The part of a process that accepts. Here all are on one loop, with pages and descriptors of their own."""

    def __init__(self, number: int, listener: socket.socket, page: Path) -> None:
        self.shares, self.taken = Shares(page, 2), 0
        self.acceptor = Acceptor(listener.dup(), self.shares, number, self._protocol, None)

    def _protocol(self) -> asyncio.Protocol:
        self.taken += 1
        return asyncio.Protocol()


class Door:
    """A socket to accept from, and clients that stay."""

    def __init__(self, folder: Path) -> None:
        self.listener, self.page = socket.create_server(("127.0.0.1", 0), backlog=100), folder / "page"
        self.clients: list[socket.socket] = []

    def come(self, count: int) -> None:
        self.clients += [socket.create_connection(self.listener.getsockname()) for _ in range(count)]

    def member(self, number: int) -> Member:
        return Member(number, self.listener, self.page)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path)
    yield made
    for each in (made.listener, *made.clients):
        each.close()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(within())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_connections_that_come_at_once_are_shared(door: Door) -> None:
    async def scenario() -> None:
        door.come(40)
        one, other = door.member(1), door.member(2)
        await until(lambda: one.taken + other.taken == 40)
        assert abs(one.taken - other.taken) <= 2 * AHEAD

    run(scenario)


def test_what_another_process_leaves_is_taken(door: Door) -> None:
    async def scenario() -> None:
        Shares(door.page, 2).put(2, 0)  # it is there, and stuck
        one = door.member(1)
        door.come(40)
        await until(lambda: one.taken == 40)

    run(scenario)


def test_a_process_that_was_stuck_or_is_new_gets_its_share_and_not_all(door: Door) -> None:
    async def scenario() -> None:
        page = Shares(door.page, 2)
        one = door.member(1)
        page.put(2, 1000)
        door.come(1)
        await until(lambda: one.taken == 1)
        assert page.others(2) == [1000 - BEHIND]
        page.put(2, ABSENT)
        assert page.others(1) == []
        other = door.member(2)
        assert page.others(1) == [1000 - BEHIND], "a new one begins where the others are"
        other.acceptor.close()
        assert page.others(1) == []
        door.come(5)
        await until(lambda: one.taken == 6)
        assert other.taken == 0

    run(scenario)


def test_a_connection_counts_before_its_handshake_and_is_given_up_without_one(door: Door, tmp_path: Path) -> None:
    made = signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert_file, made.key_file)
    counted, greeted = ConnectionLimits(most_per_address=2), list[asyncio.Transport]()

    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            greeted.append(transport)
            transport.write(b"hello")

    async def closed(client: socket.socket) -> bool:
        client.setblocking(False)
        try:
            return await asyncio.get_running_loop().sock_recv(client, 1) == b""
        except ConnectionResetError:
            return True

    async def scenario() -> None:
        acceptor = Acceptor(door.listener.dup(), Shares(None, 1), 1, Greeting, Secure(context, counted, 0.5))
        door.come(3)  # none of them ever begins
        silent = [asyncio.create_task(closed(client)) for client in door.clients]
        assert await silent[2], "there is no room for it"
        await until(lambda: counted._open == 2)
        assert await asyncio.gather(*silent) == [True] * 3
        await until(lambda: counted._open == 0)
        trusting = ssl.create_default_context(cafile=str(made.cert_file))
        trusting.check_hostname = False
        reader, writer = await asyncio.open_connection(*door.listener.getsockname(), ssl=trusting)
        assert await reader.read(5) == b"hello"
        assert (counted._open, greeted[0].get_protocol().is_counted) == (1, True)  # type: ignore[attr-defined]
        acceptor.close()
        writer.close()

    run(scenario)
