"""Where the operator's tools find a running server: a file beside its ledger, that only its owner may read."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from ..model.errors import Place, SetupError
from .settings import MEMORY

_log = logging.getLogger("toolyard.server")


class Access(Struct, frozen=True, omit_defaults=True):
    """How to ask a server about its ledger."""

    address: str
    token: str
    certificate: str | None = None
    """The one that the server shows, where it speaks https. It need not be for this address: who can read it here
    knows that it is the server's."""


def ledger_file(store: str) -> Path | None:
    """The ledger that this setting names, if it is a file."""
    kind, _, path = store.partition(":")
    return Path(path) if kind == "sqlite" and path and store != MEMORY else None


def read(ledger: Path) -> Access | None:
    """What a server has left beside its ledger. It may be gone by now."""
    path = _beside(ledger)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Access)
    except PermissionError:
        raise SetupError("only who runs the server may look after its calls", Place(str(path))) from None
    except (OSError, msgspec.DecodeError):
        return None


class AdminFile:
    """There from `publish` until the end of the block. A server enters the block when it has the ledger and leaves it
    while it still has it, so nobody else's file is ever touched."""

    def __init__(self, store: str, token: str, certificate: str | None = None) -> None:
        ledger = ledger_file(store)
        self._path = None if ledger is None else _beside(ledger)
        self._token, self._certificate = token, certificate

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def publish(self, address: str) -> None:
        """Whole from the first moment that it is there."""
        if self._path is None:
            return
        try:
            descriptor, made = tempfile.mkstemp(prefix=f"{self._path.name}.", dir=self._path.parent)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(Access(address, self._token, self._certificate)))
            os.replace(made, self._path)
        except OSError as error:
            _log.warning("%s cannot be written, so calls can only be looked after by callers: %s", self._path, error)


def _beside(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.admin")
