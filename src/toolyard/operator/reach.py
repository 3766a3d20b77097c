"""How the operator's tools get at a ledger: through a server that is named, through the one that has it, or by opening
it.

A SQLite file has one writer. A server that has it says how it can be asked, in a file beside it; what a server that was
killed left there answers to nobody, and the ledger is then free to be opened. In between, while a server starts or
stops, it is neither: that does not take long.
"""

import time
from pathlib import Path

from ..client.client import Transport
from ..client.transport import UNIX, HttpTransport
from ..lazy import load
from ..model.errors import Busy, SetupError, SourcePlace, ToolyardError
from ..server.admin.endpoint_file import Endpoint, read
from ..server.ledger import ledger_file
from ..server.settings.table import MEMORY, Settings
from ..store.values import StoreInUse
from ..text.addresses import is_safe
from ..wires.admin import calls as wire
from ..wires.lifecycle.calls import LIFECYCLE

PATIENCE_S = 3.0
LOOK_AGAIN_S = 0.1
ANSWERS_WITHIN_S = 5.0
TIMEOUT_S = 60.0


def named(server: str, token: str | None) -> Transport:
    """The server at this address, `https://…` or `unix:PATH`. Raises SetupError."""
    if not server.startswith(UNIX) and not is_safe(server):
        raise SetupError(
            f"--server {server}: the operator's token goes to https://… alone, to http:// on this machine, or to "
            "unix:PATH"
        )
    if not token:
        raise SetupError(
            f"{server} wants to know who operates it: set TOOLYARD_OPERATOR_TOKEN to its setting operator_token, or to "
            "the token in the file beside its ledger (toolyard.db.admin)"
        )
    return HttpTransport(server.rstrip("/"), token, TIMEOUT_S)


def reach(settings: Settings) -> Transport | None:
    """None: there is no ledger. Raises SetupError where there is one that cannot be had."""
    path = ledger_file(settings.store)
    if path is None:
        return None if settings.store == MEMORY else _opened(settings)
    return _file(path, settings) if path.exists() else None


def running(settings: Settings) -> Transport | None:
    """The server that has the ledger now, if one has it."""
    path = ledger_file(settings.store)
    access = None if path is None else read(path)
    if access is None or not _answers(access):
        return None
    return _sending(access, TIMEOUT_S)


def reach_or_make(settings: Settings) -> Transport:
    """The ledger that the settings name, made if it is not there. Raises SetupError where it cannot be had."""
    if settings.store == MEMORY:
        raise SetupError(
            "a ledger in memory is gone before anybody could use it; name another with --store sqlite:FILE"
        )
    path = ledger_file(settings.store)
    return _opened(settings) if path is None else _file(path, settings)


def _file(path: Path, settings: Settings) -> Transport:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        access = read(path)
        if access is not None and _answers(access):
            return _sending(access, TIMEOUT_S)
        try:
            return _opened(settings)
        except StoreInUse:
            if time.monotonic() > deadline:
                raise SetupError(
                    "another process has this ledger and cannot be asked about it: a server that starts or stops, "
                    "or one that could not say beside it how; try again, or name its address with --server",
                    SourcePlace(str(path)),
                ) from None
        time.sleep(LOOK_AGAIN_S)


def _opened(settings: Settings) -> Transport:
    try:
        opened: Transport = load("ledger")(settings)
    except OSError as error:
        raise SetupError(f"the ledger cannot be opened: {error}") from None
    return opened


def _sending(access: Endpoint, timeout_s: float) -> HttpTransport:
    return HttpTransport(f"{UNIX}{access.socket}", access.token, timeout_s)


def _answers(access: Endpoint) -> bool:
    """Whether it is that server, and not one that came after it or another program at its socket."""
    sending = _sending(access, ANSWERS_WITHIN_S)
    try:
        return "calls" in LIFECYCLE.decode(sending.send(wire.encode_list({"limit": "1"})))
    except Busy:
        return True
    except ToolyardError:
        return False
    finally:
        sending.close()
