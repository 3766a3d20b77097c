"""The endpoint file: where operators' verbs find a running server. It is beside the ledger, and only its owner can read
it.

A server writes it (`socket.py`), and `operator/reach.py` reads it.
"""

import asyncio
import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from ...model.errors import SetupError, SourcePlace
from ...model.json_value import decode_as

AGAIN_S = 1.0
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("toolyard.server")


class Endpoint(Struct, frozen=True):
    """How an operator asks the server that has a ledger open: the content of the file."""

    address: str
    """Where callers find the server; empty for an app that is mounted at an address which it does not know."""
    token: str
    """The operator's token, which each request must carry."""
    socket: str
    """The path of the Unix socket."""


def read(ledger: Path) -> Endpoint | None:
    """The endpoint that a server has written beside its ledger, or None. The server may be gone by now. Raises
    SetupError for a file that others could have written: whoever sends a secret must know where it goes."""
    path = _beside(ledger)
    try:
        with open(path, "rb", opener=_open) as file:
            owners = (os.geteuid(), ledger.stat().st_uid)
            status = os.fstat(file.fileno())
            if status.st_uid not in owners or status.st_mode & OTHERS_MAY_WRITE:
                raise SetupError(
                    "others can write this file, so it cannot be trusted; remove it", SourcePlace(str(path))
                )
            return decode_as(file.read(), Endpoint)
    except PermissionError:
        raise SetupError("only who runs the server may look after its calls", SourcePlace(str(path))) from None
    except (OSError, msgspec.DecodeError):
        return None


class EndpointFile:
    """The file, there as long as a `with` block. A server enters the block once it has the ledger open and leaves it
    while it still has, so no other server's file is ever touched."""

    def __init__(self, ledger: Path, endpoint: Endpoint) -> None:
        self._path, self._endpoint = _beside(ledger), endpoint
        self._retry: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        """Writes the file; on a full disk it comes as soon as there is room. Meanwhile nobody is sent to a server that
        has died: what that has left is removed."""
        try:
            self._write()
        except OSError as error:
            _log.warning(
                "%s cannot be written, so until it can, calls can only be looked after by callers: %s",
                self._path, error,
            )  # fmt: skip
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._try_later()
        return self

    def __exit__(self, *_: object) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._path.unlink(missing_ok=True)

    def _try_later(self) -> None:
        self._retry = asyncio.get_running_loop().call_later(AGAIN_S, self._try)

    def _try(self) -> None:
        try:
            self._write()
        except OSError:
            self._try_later()
        else:
            _log.warning("%s is written, so this server can be looked after", self._path)

    def _write(self) -> None:
        """Whole from the first moment that it is there. Raises OSError, and leaves nothing behind."""
        descriptor, made = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self._endpoint))
            os.replace(made, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(made)
            raise


def _open(path: str, flags: int) -> int:
    """Opens what is really there: not what a link points to, and without waiting for whoever has a pipe's other end."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _beside(ledger: Path) -> Path:
    real = Path(os.path.realpath(ledger))
    return real.with_name(f"{real.name}.admin")
