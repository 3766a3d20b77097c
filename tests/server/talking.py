"""Handlers that take their time, and a server of them: `python -m tests.server.talking direct|mounted|unswept`.

What they wait for and what has become of them are words in a journal, which tests read and write over HTTP.
"""

import asyncio
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import uvicorn

from toolyard.model.caller import LOCAL
from toolyard.model.json_bounds import JsonBounds
from toolyard.server.app.compose import Yard
from toolyard.server.app.run import address_of, listen, serve
from toolyard.server.http import uvicorn_protocol
from toolyard.server.http.admission import Admission
from toolyard.server.http.body import BodyReader
from toolyard.server.http.exchange import Exchange
from toolyard.server.http.logs import set_up_logging
from toolyard.server.http.origins import Guard
from toolyard.server.http.routes import Handler, Route
from toolyard.server.http.shell import Shell
from toolyard.server.intake.witness import Witness
from toolyard.server.settings.table import exactly
from toolyard.wires.contract import Reply, Stream
from toolyard.wires.oxp import oxp

PREFIX = {"direct": "", "unswept": "", "mounted": "/below"}
FLOOD = 32
PIECE = b"x" * (1 << 20)
Thing = TypeVar("Thing")
SETTINGS = exactly(port=0, grace_s=120)


class Journal:
    """Words, each written at some time."""

    def __init__(self) -> None:
        self._words: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def tell(self, word: str) -> None:
        self._words[word].set()

    def has(self, word: str) -> bool:
        return self._words[word].is_set()

    async def told(self, word: str) -> None:
        await self._words[word].wait()


journal = Journal()


def say(line: str) -> None:
    """To the test that started this process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def said(text: str, status: int = 200) -> Reply:
    return Reply(status, text.encode(), [(b"content-type", b"text/plain")])


def kept(thing: Thing) -> Thing:
    """So that it is not ended because nobody holds it any more."""
    everything.append(thing)
    return thing


everything: list[object] = []


def name_of(exchange: Exchange) -> str:
    return exchange.parameters["name"]


# -- the journal -----------------------------------------------------------------------------------


async def tell(exchange: Exchange) -> Reply:
    journal.tell(exchange.parameters["word"])
    return said("heard")


async def has(exchange: Exchange) -> Reply:
    return said("yes" if journal.has(exchange.parameters["word"]) else "no")


async def told(exchange: Exchange) -> Reply:
    await journal.told(exchange.parameters["word"])
    return said("told")


# -- streams ---------------------------------------------------------------------------------------


async def two(name: str) -> AsyncIterator[bytes]:
    """Waits before the second."""
    try:
        journal.tell(f"{name}.started")
        yield b"one"
        yield b""
        await journal.told(f"{name}.go")
        yield b"two"
    finally:
        journal.tell(f"{name}.closed")


async def flood(name: str) -> AsyncIterator[bytes]:
    """More than fits into any buffer between here and a client."""
    try:
        for _ in range(FLOOD):
            yield PIECE
        journal.tell(f"{name}.over")
    finally:
        journal.tell(f"{name}.closed")


async def broken(name: str) -> AsyncIterator[bytes]:
    yield b"one"
    raise RuntimeError(f"{name} failed on purpose")


async def cancelled(name: str) -> AsyncIterator[bytes]:
    """What it waits for is cancelled, and not it."""
    yield b"one"
    waiting = asyncio.ensure_future(journal.told("never"))
    waiting.cancel()
    await waiting


def streaming(chunks: Callable[[str], AsyncIterator[bytes]]) -> Handler:
    async def handle(exchange: Exchange) -> Stream:
        return Stream(200, [(b"content-type", b"text/event-stream")], chunks(name_of(exchange)))

    return handle


# -- early replies ---------------------------------------------------------------------------------


async def early(exchange: Exchange) -> Reply:
    """Its own end comes later."""
    name = name_of(exchange)
    exchange.when_gone(lambda: journal.tell(f"{name}.gone"))
    exchange.answer(said("early", 202))
    await journal.told(f"{name}.go")
    journal.tell(f"{name}.done")
    say(f"{name} is done")
    return said("thrown away")


async def twice(exchange: Exchange) -> Reply:
    exchange.answer(said("first", 202))
    exchange.answer(said("second", 202))
    return said("third")


async def unwanted(exchange: Exchange) -> Stream:
    """A stream, when there is a reply already. Its first chunk has been looked at."""
    chunks = kept(two(name_of(exchange)))
    await anext(chunks)
    exchange.answer(said("early", 202))
    return Stream(200, [], chunks)


async def called_back(exchange: Exchange) -> Reply:
    """The answer comes from a callback."""
    name = name_of(exchange)
    asyncio.get_running_loop().call_soon(exchange.answer, said("early", 202))
    await journal.told(f"{name}.go")
    return said("thrown away")


async def failing(exchange: Exchange) -> Reply:
    """After its answer."""
    exchange.answer(said("early", 202))
    raise RuntimeError(f"{name_of(exchange)} failed after its answer")


async def late(exchange: Exchange) -> Reply:
    """Somebody answers once more, after the reply."""
    name = name_of(exchange)

    async def answer() -> None:
        await journal.told(f"{name}.go")
        exchange.answer(said("late", 202))
        journal.tell(f"{name}.answered")

    kept(asyncio.create_task(answer()))
    return said("in time")


# -- clients that leave ----------------------------------------------------------------------------


async def gone(exchange: Exchange) -> Reply:
    """Waits, and hears if the client leaves."""
    name = name_of(exchange)
    exchange.when_gone(lambda: journal.tell(f"{name}.gone"))
    exchange.when_gone(lambda: journal.tell(f"{name}.gone-too"))
    journal.tell(f"{name}.waiting")
    await journal.told(f"{name}.go")
    return said("stayed")


async def answering_nobody(exchange: Exchange) -> Reply:
    """Asks, and answers, when the client has left."""
    name = name_of(exchange)
    exchange.when_gone(lambda: journal.tell(f"{name}.gone"))
    journal.tell(f"{name}.waiting")
    await journal.told(f"{name}.gone")
    exchange.when_gone(lambda: journal.tell(f"{name}.gone-before"))
    exchange.answer(said("anybody?", 202))
    journal.tell(f"{name}.answered")
    return said("nobody")


def route(method: str, path: str, handler: Callable[[Exchange], Awaitable[Reply | Stream]]) -> Route:
    return Route(method, path, handler, oxp.FLAT, reads_json=method == "POST")


ROUTES = [
    route("PUT", "/told/{word}", tell),
    route("GET", "/told/{word}", told),
    route("GET", "/told/{word}/now", has),
    route("DELETE", "/nothing", has),
    route("GET", "/stream/{name}", streaming(two)),
    route("POST", "/stream/{name}", streaming(two)),
    route("GET", "/flood/{name}", streaming(flood)),
    route("GET", "/broken/{name}", streaming(broken)),
    route("GET", "/cancelled/{name}", streaming(cancelled)),
    route("GET", "/early/{name}", early),
    route("GET", "/twice", twice),
    route("GET", "/unwanted/{name}", unwanted),
    route("GET", "/called-back/{name}", called_back),
    route("GET", "/failing/{name}", failing),
    route("GET", "/late/{name}", late),
    route("GET", "/gone/{name}", gone),
    route("POST", "/gone/{name}", gone),
    route("GET", "/nobody/{name}", answering_nobody),
]


async def nothing(*_: object) -> None:
    """There is nothing to start or stop."""


def shell(*routes: Route) -> Shell:
    admission = Admission(
        Guard("", None, (), (), knows_host=False), lambda headers: LOCAL, Witness(None, time.time), has_issuers=False
    )
    return Shell(
        routes or ROUTES, BodyReader(1 << 20, JsonBounds()), admission, {"": oxp.FLAT}, nothing, nothing, SETTINGS, None
    )


def announce(address: str) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, journal.tell, "signal.go")
    say(address)


def serve_mounted() -> None:
    """As a part of somebody's application, behind their server."""
    from fastapi import FastAPI  # which takes a while to load, and not every test that imports this needs it

    outer = FastAPI()
    outer.mount(PREFIX["mounted"], shell())
    listener = listen(SETTINGS)
    say(address_of(listener))
    uvicorn.Server(uvicorn.Config(outer, log_config=None, lifespan="off")).run(sockets=[listener])


def serve_directly() -> None:
    yard = Yard([], SETTINGS)
    yard.asgi = shell()
    listener = listen(SETTINGS)
    serve(yard, listener, lambda: announce(address_of(listener)))


if __name__ == "__main__":
    set_up_logging("warning")
    if sys.argv[1] == "unswept":
        uvicorn_protocol.SWEEP_S = 3600
    serve_mounted() if sys.argv[1] == "mounted" else serve_directly()
