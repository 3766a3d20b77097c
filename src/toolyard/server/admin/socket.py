"""The operator's socket: a Unix socket, for its owner alone, on which a server is asked for the operator's table.

A mounted app does not know at which address it is served, and a SQLite ledger has one writer; so its operator must be
able to ask it without an address. The socket is beside the ledger. Where it cannot be there (a socket's path has at
most some hundred bytes, and in a folder that others can write they could put another socket in its place) it is in a
folder of the user's own. The endpoint file beside the ledger says where it is, and has the token, which is asked for
here as everywhere.

A server that has the ledger open owns what lies beside it: a socket that a killed server left there is replaced.

Listening is here, HTTP in `socket_http.py`: most servers never see an operator, so uvicorn is loaded when the first
one connects.
"""

import asyncio
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ...lazy import load
from ..http.shell import Shell
from ..ledger import ledger_file
from .endpoint_file import OTHERS_MAY_WRITE, Endpoint, EndpointFile

LONGEST_PATH = 103
"""In bytes, without the zero at its end: what every system takes as a socket's path."""
_log = logging.getLogger("toolyard.server")


class OperatorSocket:
    """Serves the routes of `shell`, which are the operator's alone, on a socket beside the ledger. `address` is where
    callers find the server, as far as that is known. A ledger that is no file has no socket: it can be opened by an
    operator while servers use it, or is in memory."""

    def __init__(self, store: str, token: str, shell: Shell, address: str) -> None:
        self._ledger, self._token, self._shell, self._address = ledger_file(store), token, shell, address

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Listens as long as the block runs, during which the server has the ledger open."""
        if self._ledger is None:
            yield
            return
        with _listening(self._ledger) as listener:
            if listener is None:
                yield
                return
            with EndpointFile(self._ledger, Endpoint(self._address, self._token, listener.getsockname())):
                async with _answering(listener, self._shell):
                    yield


@asynccontextmanager
async def _answering(listener: socket.socket, shell: Shell) -> AsyncIterator[None]:
    """Loads HTTP when the first operator connects, and answers from then on."""
    loop = asyncio.get_running_loop()
    http: list[Any] = []  # what answers, once somebody has connected

    def begin() -> None:
        loop.remove_reader(listener)
        http.append(load("operators_http")(shell, listener))

    loop.add_reader(listener, begin)
    try:
        yield
    finally:
        if http:
            await http[0].close()
        else:
            loop.remove_reader(listener)


@contextmanager
def _listening(ledger: Path) -> Iterator[socket.socket | None]:
    """A socket that listens; None where there is no place for one. Its path is removed afterwards."""
    listener = _listen(Path(os.path.realpath(ledger)))
    if listener is None:
        yield None
        return
    path = Path(listener.getsockname())
    with listener:
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # others of this user's servers may have theirs there
                if path.parent in _own_folders():
                    path.parent.rmdir()


def _listen(ledger: Path) -> socket.socket | None:
    """Listens at the first path that will do, or logs why none does."""
    problem: OSError | None = None
    for path in _places(ledger):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(listener, path)
        except OSError as error:
            listener.close()
            problem = error
        else:
            return listener
    _log.warning("there is no place for the operator's socket, so this server cannot be looked after here: %s", problem)
    return None


def _bind(listener: socket.socket, path: Path) -> None:
    """Binds and listens. Nobody can connect before the socket listens, and by then it is its owner's alone. Raises
    OSError."""
    if len(os.fsencode(path)) > LONGEST_PATH or not str(path).isprintable():
        raise OSError(f"{str(path)!r} cannot be a socket's path")
    if path.parent in _own_folders():
        _make_own(path.parent)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} is something else")
        path.unlink()
    listener.bind(os.fspath(path))
    path.chmod(0o600)
    listener.listen()
    listener.setblocking(False)


def _places(ledger: Path) -> Iterator[Path]:
    """Where the socket may be: beside the ledger where nobody else can write, else in a folder of the user's own."""
    if not ledger.parent.stat().st_mode & OTHERS_MAY_WRITE:
        yield ledger.with_name(f"{ledger.name}.sock")
    name = blake2b(os.fsencode(ledger), digest_size=10).hexdigest()
    folders = _own_folders()
    for folder in (*folders, *folders):  # again: another server may have taken the folder away as it left
        yield folder / f"{name}.sock"


def _own_folders() -> list[Path]:
    """Folders of this user that nobody else can look into. They need not be there yet."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime, "toolyard")] if runtime else []
    shared = dict.fromkeys((tempfile.gettempdir(), "/tmp"))
    return [*own, *(Path(each, f"toolyard-{os.geteuid()}") for each in shared)]


def _make_own(folder: Path) -> None:
    """Makes one of these folders. Raises OSError for a folder or file that somebody else put there first."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
