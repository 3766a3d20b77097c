"""HTTP on the operator's socket, by the same protocol class and with the same limits as `toolyard serve`.

Apart from `socket.py` because it imports uvicorn, which is loaded when the first operator connects.
"""

import asyncio
import socket

import uvicorn
from uvicorn.server import ServerState

from ..http.connection_limits import ConnectionLimits, ReadTimeouts
from ..http.fast_path import FastPath
from ..http.shell import Shell
from ..http.uvicorn_protocol import PoliteProtocol, polite

HERE = ("unix", 0)
"""The address of an operator in the audit log: whoever connects to a Unix socket has none."""


class SocketHttp:
    """Answers whoever connects to the socket, from the moment it is made until it is closed."""

    def __init__(self, shell: Shell, listener: socket.socket) -> None:
        most = PoliteProtocol.max_header_bytes
        limited = polite(FastPath(shell), ReadTimeouts(), most, shell.methods, ConnectionLimits())
        self._config = uvicorn.Config(
            shell,
            http=type("OperatorsProtocol", (_Local, limited), {}),
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        self._config.load()
        self._state = ServerState()
        self._accepting = asyncio.create_task(self._accept(listener))

    async def close(self) -> None:
        """Stops listening, and cancels the requests that still wait: they are answered that the server stops."""
        server = await self._accepting
        server.close()
        tasks = set(self._state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for connection in list(self._state.connections):
            connection.shutdown()

    async def _accept(self, listener: socket.socket) -> asyncio.AbstractServer:
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(
            lambda: self._config.http_protocol_class(self._config, self._state, {}, loop),  # type: ignore[call-arg]
            sock=listener,
        )


class _Local:
    """Gives a connection over the Unix socket an address."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.client = HERE
