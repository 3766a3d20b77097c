"""Runs a yard behind uvicorn until it is told to stop: the socket, TLS, the limits of connections, and the order in
which a server that is told to stop leaves.
"""

import asyncio
import errno
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import cast

import uvicorn

from ...lazy import load
from ...model.errors import SettingsError, SetupError
from ...runners.core_files import no_core_files
from ...text.addresses import is_loopback
from ..http.connection_limits import ReadTimeouts
from ..http.fast_path import FastPath
from ..http.log_writer import log_writers
from ..http.logs import set_log_level
from ..http.uvicorn_protocol import PoliteProtocol, polite, sweep
from ..ledger import has_keys
from ..settings.table import Settings
from .compose import Listening, Yard
from .large_memory import give_large_blocks_back
from .settings_reload import SettingsReload
from .shutdown import LastResort
from .tls import Certificate, check_certificate

SWITCH_INTERVAL_S = 0.0002
"""A thread that computes takes the server from 24k to 1.2k calls/s at Python's default of 5 ms; at this it keeps 7k."""
GARBAGE_OBJECTS = 10_000
"""How many more objects there may be than at the last collection: more than a hundred calls under way make."""
DRAIN_S = 5.0
"""How long calls are taken after SIGTERM where others reach the server: balancers look at `/ready` every few
seconds."""
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


def serve(
    yard: Yard, listener: socket.socket, announce: Callable[[], None], reload: SettingsReload | None = None
) -> None:
    """Serves a yard that was told of this listener (`listening_at`) until SIGINT or SIGTERM. `announce` is called once
    calls are taken; `reload` has it follow its settings, where they can be read again. Raises SetupError."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    give_large_blocks_back()
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
    for writer in log_writers():
        yard.supervisor.adopt(writer.thread)

    async def live() -> None:
        async with yard.lifetime():
            # Once more, with the ledger that is really served, and its keys.
            refuse_unsafe(settings, yard.needs_credentials)
            collect_garbage_rarely()
            await Server(config, yard, announce, reload).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(live())


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, says on `/ready` that it is about to leave before it does, and
    ends in order whatever holds it up."""

    def __init__(
        self, config: uvicorn.Config, yard: Yard, announce: Callable[[], None], reload: SettingsReload | None
    ) -> None:
        super().__init__(config)
        self._yard, self._announce, self._reload = yard, announce, reload
        self._loop = asyncio.get_running_loop()
        self._is_draining = False
        self._last_resort = LastResort(LEAVING_S)
        self._counted, self._handshake_s = yard.limiting.connections, yard.settings.header_timeout_s
        self._take_times(yard.settings)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._begin_accepting(sockets or [])
        if self.started:
            self._sweeper = self._yard.supervisor.task("connections", partial(sweep, self.server_state.connections))
            if self._reload is not None:
                certificate = Certificate(self.config.ssl, partial(context_of, self.config))
                prepares = [self._refuse_unsafe, certificate.prepare, self._yard.prepare, self._follow]
                self._reload.follow(lambda: self._yard.settings, prepares)
            self._announce()

    async def _begin_accepting(self, sockets: list[socket.socket]) -> None:
        """Has uvicorn accept connections; or, where several processes accept from one socket, what lets them share; and
        so, too, where connections have to be counted before TLS's handshake."""
        member, context = self._yard.member, self.config.ssl
        is_uvicorns = member is None and context is None
        await super().startup(sockets if is_uvicorns else [])
        if is_uvicorns:
            return
        shares = load("group_shares")(*((None, 1) if member is None else (member.shares, member.of)))
        secure = None if context is None else load("group_secure")(context, self._counted, self._handshake_s)
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        state, loop = self.server_state, asyncio.get_running_loop()
        protocol = partial(make, config=self.config, server_state=state, app_state={}, _loop=loop)
        for each in sockets:
            acceptor = load("group_acceptor")(each, shares, 1 if member is None else member.number, protocol, secure)
            self.servers.append(acceptor)

    def _refuse_unsafe(self, settings: Settings) -> Callable[[], None]:
        has_authentication = settings.has_authentication or self._yard.has_ledger_keys
        if self._yard.needs_credentials and not has_authentication:
            raise SettingsError("nobody would need credentials any more; to open a server to everybody, start it again")
        refuse_unsafe(settings, has_authentication)
        return lambda: None

    def _follow(self, settings: Settings) -> Callable[[], None]:
        """What has this server follow other settings: nothing can be wrong with its own."""

        def adopt() -> None:
            self._take_times(settings)
            set_log_level(settings.log_level)
            for connection in self._connections():
                connection.forget_head()

        return adopt

    def _take_times(self, settings: Settings) -> None:
        self._drain_s, self._grace_s = drain_of(settings), settings.grace_s
        self._last_resort.after_s = self._drain_s + 2 * self._grace_s + STOPPING_S + LEAVING_S

    async def main_loop(self) -> None:
        """Serves until a signal asks for the end, and on until those who send calls have noticed. Nobody else may ask:
        a tool that cancels every task that it finds has cancelled this one, too."""
        until: float | None = None
        while True:
            try:
                await super().main_loop()
                if self._is_draining:
                    until = until or time.monotonic() + self._drain_s
                    await self._wait_while(lambda: True, until)
                return
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self.force_exit or task is None:
                    raise
                while task.uncancel():
                    pass
                _log.error("the server was cancelled by nobody who may, and goes on")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leaves in this order: calls are refused from now on; whoever only waits is answered, and endless streams end;
        what runs may end, while whoever comes is told when to come back; uvicorn closes the door, and stops requests
        that take too long; these write down what is left to others; and then the streams of their calls end."""
        if self._reload is not None:
            self._reload.stop()
        calls_end_at = time.monotonic() + self._grace_s
        self._end_connections()
        self._yard.let_go(calls_end_at)
        streams = self._yard.asgi.streams
        await streams.end_endless()
        if self._is_draining:
            for connection in self._connections():
                connection.close_idle()
            await self._wait_while(self._is_busy, calls_end_at)
        # Whole seconds are what uvicorn's types want, and any number is what it takes.
        self.config.timeout_graceful_shutdown = max(calls_end_at - time.monotonic(), 0.0)  # type: ignore[assignment]
        await super().shutdown(sockets)
        await self._sweeper.stop()  # only now: what is slow to arrive holds up nobody for longer than it may
        await self._wait_for_stopped()
        await streams.end()

    def _end_connections(self) -> None:
        """Has each connection end with its next reply, so that its client opens the next one elsewhere."""
        if not self.started:
            return
        protocol = cast("type[PoliteProtocol]", self.config.http_protocol_class)
        protocol.keeps_alive = False
        for connection in self._connections():
            connection.end_after_reply()

    def _connections(self) -> list[PoliteProtocol]:
        return [each for each in self.server_state.connections if isinstance(each, PoliteProtocol)]

    def _is_busy(self) -> bool:
        """Whether a request waits for its answer, or a call runs on without one."""
        return bool(self.server_state.tasks) or self._yard.runs_calls

    async def _wait_while(self, condition: Callable[[], bool], until: float) -> None:
        """Waits until then, as long as the condition holds and nobody hurries."""
        while condition() and not self.force_exit and (left_s := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, LOOK_AGAIN_S))

    async def _wait_for_stopped(self) -> None:
        """Waits for the requests that uvicorn has just cancelled, which it does not do itself. A call that is being
        recorded then has its stream until that is done: with its first event, its client can come back for the rest."""
        tasks, until = list(self.server_state.tasks), time.monotonic() + STOPPING_S
        while any(not task.done() for task in tasks) and time.monotonic() < until and not self.force_exit:
            await asyncio.wait(tasks, timeout=LOOK_AGAIN_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets what runs end: SIGTERM, which comes from what looks after servers, once calls go
        elsewhere, and SIGINT, which comes from a person at a terminal, at once. At the second signal, nobody waits for
        anything."""
        if self.should_exit:
            self.force_exit = True
            self._yard.hurry()
        elif sig == signal.SIGTERM and not self._yard.settings.reload:  # with it, a parent keeps the door open
            self._is_draining = True
            # At the next turn, and not when uvicorn next looks: whoever asks from now on is told that it is the last
            # time.
            self._loop.call_soon_threadsafe(self._end_connections)
        if self._is_draining and self._drain_s and not self.force_exit:
            self._yard.readiness.drain()
        else:
            self._yard.readiness.refuse_calls()
        self._last_resort.ask()
        super().handle_exit(sig, frame)


def context_of(config: uvicorn.Config, cert: str, key: str) -> ssl.SSLContext:
    """What uvicorn makes of a certificate and its key, with all else as it is set up."""
    return uvicorn.config.create_ssl_context(
        certfile=cert,
        keyfile=key,
        password=None,
        ssl_version=config.ssl_version,
        cert_reqs=config.ssl_cert_reqs,
        ca_certs=config.ssl_ca_certs,
        ciphers=config.ssl_ciphers,
    )


def drain_of(settings: Settings) -> float:
    """How long calls are taken after SIGTERM. A server on loopback is a developer's, unless somebody says otherwise,
    and nobody sends it calls who could send them elsewhere."""
    if settings.drain_s is not None:
        return settings.drain_s
    return 0.0 if is_loopback(settings.host) else DRAIN_S


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
