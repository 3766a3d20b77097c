"""How an operator's verb reaches a ledger: through a server that is named, through the server that has the ledger open,
or by opening it.

A SQLite file has one writer. A server that has it open says how it can be asked, in an endpoint file beside it
(`server/admin/endpoint_file.py`). A file that a killed server left there leads to no answer, and the ledger is then
free to be opened. While a server starts or stops, the ledger is neither free nor answered for; that does not take long,
so it is tried again for a moment.
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
"""How long a ledger may be in use by a server that cannot be asked."""
LOOK_AGAIN_S = 0.1
ANSWERS_WITHIN_S = 5.0
"""How long a server may take to show that it is there."""
TIMEOUT_S = 60.0


def named(server: str, token: str | None) -> Transport:
    """A transport to the server at this address, `https://…` or `unix:PATH`. Raises SetupError."""
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
    """A transport to the ledger that the settings name, through its server or by opening it; None where there is no
    ledger. Raises SetupError where there is one that cannot be reached."""
    path = ledger_file(settings.store)
    if path is None:
        return None if settings.store == MEMORY else _opened(settings)
    return _file(path, settings) if path.exists() else None


def running(settings: Settings) -> Transport | None:
    """A transport to the server that has the ledger open now; None where none has."""
    path = ledger_file(settings.store)
    endpoint = None if path is None else read(path)
    if endpoint is None or not _is_answering(endpoint):
        return None
    return _transport(endpoint, TIMEOUT_S)


def reach_or_make(settings: Settings) -> Transport:
    """A transport as from `reach`, but a ledger that is not there is made. Raises SetupError where it cannot be
    reached."""
    if settings.store == MEMORY:
        raise SetupError(
            "a ledger in memory is gone before anybody could use it; name another with --store sqlite:FILE"
        )
    path = ledger_file(settings.store)
    return _opened(settings) if path is None else _file(path, settings)


def _file(path: Path, settings: Settings) -> Transport:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        endpoint = read(path)
        if endpoint is not None and _is_answering(endpoint):
            return _transport(endpoint, TIMEOUT_S)
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


def _transport(endpoint: Endpoint, timeout_s: float) -> HttpTransport:
    return HttpTransport(f"{UNIX}{endpoint.socket}", endpoint.token, timeout_s)


def _is_answering(endpoint: Endpoint) -> bool:
    """Whether the server of this endpoint file runs still. Another program at its socket, or a server that came after
    it and has another token, does not answer as an operator expects."""
    transport = _transport(endpoint, ANSWERS_WITHIN_S)
    try:
        return "calls" in LIFECYCLE.decode(transport.send(wire.encode_list({"limit": "1"})))
    except Busy:
        return True  # it is there, and has no time now
    except ToolyardError:
        return False
    finally:
        transport.close()
