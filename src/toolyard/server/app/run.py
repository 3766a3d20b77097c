"""Runs a yard behind uvicorn until it is told to stop: the socket, TLS, the limits of connections, and the order in
which a server that is told to stop leaves.
"""

import asyncio
import errno
import gc
import logging
import resource
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn

from ...model.errors import SettingsError, SetupError
from ...runners.core_files import no_core_files
from ...text.addresses import is_loopback
from ..http.connection_limits import ReadTimeouts
from ..http.fast_path import FastPath
from ..http.log_writer import log_writers
from ..http.uvicorn_protocol import polite, sweep
from ..ledger import has_keys
from ..settings.table import Settings
from .compose import Listening, Yard
from .shutdown import LastResort
from .tls import check_certificate

SWITCH_INTERVAL_S = 0.0002
"""A thread that computes takes the server from 24k to 1.2k calls/s at Python's default of 5 ms; at this it keeps 7k."""
GARBAGE_OBJECTS = 10_000
"""How many more objects there may be than at the last collection: more than a hundred calls under way make."""
LEAVING_S = 30.0
"""How long what the tools share may take to be closed, after connections and calls have had their time. Then the
process ends."""
STOPPING_S = 5.0
"""How long requests that were told to stop may take to write down what is left to others."""
LOOK_AGAIN_S = 0.1
OWN_FILES = 512
"""Files that are open besides connections: the ledger, pipes to processes, what tools open."""

_log = logging.getLogger("toolyard.server")


def collect_garbage_rarely() -> None:
    """What was made to start with stays, and is not looked at again. Calls leave hardly any cycles; but those under way
    are many objects, and at Python's default of 700 each of them is looked at several times before it ends. (After a
    large request `http.turns` has it done at once.)"""
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)


def serve(yard: Yard, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serves a yard that was told of this listener (`listening_at`) until SIGINT or SIGTERM. `announce` is called once
    calls are taken. Raises SetupError."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    settings = yard.settings
    if not settings.core_files:
        no_core_files()
    check_certificate(settings)
    allow_files(settings.max_connections + OWN_FILES)
    timeouts = ReadTimeouts(settings.header_timeout_s, settings.body_timeout_s, settings.write_timeout_s)
    config = uvicorn.Config(
        yard.asgi,
        http=polite(
            FastPath(yard.asgi),
            timeouts,
            settings.max_header_bytes,
            yard.asgi.methods,
            yard.limiting.connections,
        ),
        ws="none",
        lifespan="off",  # the yard lives around uvicorn, so that it starts before the first connection is taken
        log_config=None,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,  # `connection_limits.Proxies` reads them, for trusted proxies alone
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_keep_alive=settings.keep_alive_s,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.grace_s,  # type: ignore[arg-type]
    )
    server = Server(config, yard, announce)
    for writer in log_writers():
        yard.supervisor.adopt(writer.thread)

    async def live() -> None:
        async with yard.lifetime():
            # Once more, with the ledger that is really served, and its keys.
            refuse_unsafe(settings, yard.needs_credentials)
            collect_garbage_rarely()
            await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(live())


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, says on `/health` when it is leaving, and ends in order whatever
    holds it up."""

    def __init__(self, config: uvicorn.Config, yard: Yard, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._yard, self._announce = yard, announce
        self._last_resort = LastResort(2 * yard.settings.grace_s + STOPPING_S + LEAVING_S)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._sweeper = self._yard.supervisor.task("connections", partial(sweep, self.server_state.connections))
            self._announce()

    async def main_loop(self) -> None:
        """Serves until a signal asks for the end. Nobody else may: a tool that cancels every task that it finds has
        cancelled this one, too."""
        while True:
            try:
                return await super().main_loop()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self.should_exit or task is None:
                    raise
                while task.uncancel():
                    pass
                _log.error("the server was cancelled by nobody who may, and goes on")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leaves in this order: whoever only waits is answered, endless streams end, uvicorn lets requests end and
        stops those that take too long, these write down what is left to others, and then the streams of their calls
        end."""
        await self._sweeper.stop()
        self._yard.let_go()
        streams = self._yard.asgi.streams
        await streams.end_endless()
        await super().shutdown(sockets)
        await self._wait_for_stopped()
        await streams.end()

    async def _wait_for_stopped(self) -> None:
        """Waits for the requests that uvicorn has just cancelled, which it does not do itself. A call that is being
        recorded then has its stream until that is done: with its first event, its client can come back for the rest."""
        tasks, until = list(self.server_state.tasks), time.monotonic() + STOPPING_S
        while any(not task.done() for task in tasks) and time.monotonic() < until and not self.force_exit:
            await asyncio.wait(tasks, timeout=LOOK_AGAIN_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets what runs end; at the second one, nobody waits for it."""
        if self.should_exit:
            self.force_exit = True
            self._yard.hurry()
        self._yard.readiness.drain()
        self._last_resort.ask()
        super().handle_exit(sig, frame)


def listen(settings: Settings) -> socket.socket:
    """A listening socket. Raises SetupError when the address is taken or not safe to listen on, or without the
    certificate that the settings name."""
    check_certificate(settings)
    if not is_loopback(settings.host):
        refuse_unsafe(settings, settings.has_authentication or asyncio.run(has_keys(settings)))
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"port {port} on {host} is taken; choose another with --port, or --port 0 for a free one"
            ) from error
        raise SetupError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    listener.listen(2048)
    listener.set_inheritable(True)  # `serve --reload` hands it to its child
    return listener


def allow_files(wanted: int) -> None:
    """Lets this process have so many open files, or as many as the system allows. A connection is one, and a process
    often starts with leave for 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def refuse_unsafe(settings: Settings, needs_credentials: bool) -> None:
    """Raises SettingsError for a server without authentication that others can reach. Asked before anything is loaded,
    and again once the ledger is open that is served."""
    if needs_credentials or is_loopback(settings.host):
        return
    raise SettingsError(
        f"{settings.host} can be reached from other machines, and no authentication is set; make an API key first: "
        "toolyard keys new NAME"
    )


def listening_at(listener: socket.socket, settings: Settings) -> Listening:
    """What a yard is told of the socket that it will be served on."""
    return Listening(address_of(listener, "https" if settings.tls_cert else "http"))


def address_of(listener: socket.socket, scheme: str = "http") -> str:
    """The address to show people: one that listens everywhere is reached on this machine by loopback."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{scheme}://{shown}:{port}"
