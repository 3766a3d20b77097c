"""SIGHUP: the settings are read again, and a server that runs follows those that can change.

First everything is made that the new settings need: what is wrong with them is found by then, and the old ones stay in
force. Then all of it is put in place within one turn of the event loop, so that no request sees a half. Calls that run
go on; what waits on a caller's behalf sees what a new request of the caller would. Files are read again also where
their names are the same: certificates, key files, and the keys of issuers.

The same signal comes when the terminal is closed that a server was started in (`group/hang_up.py`), which ends it.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import replace
from functools import partial

from ...model.errors import SetupError
from ..group.hang_up import Terminal
from ..settings.table import Settings, changed, rows

Prepare = Callable[[Settings], Callable[[], None]]
"""Makes what other settings need, and returns what puts it in place. Raises SetupError."""
_CHANGES = frozenset(each.name for each in rows() if each.metadata["changes"])
_log = logging.getLogger("toolyard.server")


class SettingsReload:
    """Reads the settings of a server again when SIGHUP asks for it. It handles the signal from when it is made: one
    that comes while the server starts is heeded as soon as it runs. `followed` is called when new settings are in
    force."""

    def __init__(self, read: Callable[[], Settings], followed: Callable[[], None] = lambda: None) -> None:
        self._read, self._followed = read, followed
        self._is_asked = False
        self._run: Callable[[], object] | None = None
        self._told: dict[str, object] = {}
        """What was said to need a restart, so that it is not said again."""
        self._terminal = Terminal()
        signal.signal(signal.SIGHUP, self._handle)

    def follow(self, current: Callable[[], Settings], prepares: Sequence[Prepare]) -> None:
        """Has the parts of a server that runs follow the settings from now on. To be called on its loop."""
        loop = asyncio.get_running_loop()
        # In a context of its own: the signal may interrupt a request, whose name is not to stand in the log.
        run = partial(loop.call_soon_threadsafe, self._reload, current, prepares)
        self._run = lambda: run(context=Context())
        if self._is_asked:
            self._reload(current, prepares)

    def stop(self) -> None:
        """The server leaves, and follows nobody any more."""
        self._run = None

    def _handle(self, *_: object) -> None:
        if self._terminal.is_closed():
            signal.raise_signal(signal.SIGINT)
            return
        self._is_asked = True
        if self._run is not None:
            self._run()

    def _reload(self, current: Callable[[], Settings], prepares: Sequence[Prepare]) -> None:
        old = current()
        try:
            read = self._read()
            followed = _followed(old, read)
            new = in_force(old, read)
            adopts = [prepare(new) for prepare in prepares]
        except (SetupError, OSError) as error:
            _log.error("the settings cannot be followed, and those before stay in force: %s", error)
            return
        for adopt in adopts:
            adopt()
        self._followed()
        _log.info("the settings were read again; changed: %s", ", ".join(changed(old, new)) or "none")
        self._tell_waiting({name: getattr(read, name) for name in changed(old, read) if name not in followed})

    def _tell_waiting(self, waiting: dict[str, object]) -> None:
        if waiting and waiting != self._told:
            _log.warning("settings that change when the server is started again: %s", ", ".join(waiting))
        self._told = waiting


def in_force(old: Settings, read: Settings) -> Settings:
    """What a server that runs with the old settings has when it follows others: those that cannot change stay."""
    return replace(old, **{name: getattr(read, name) for name in _followed(old, read)})


def _followed(old: Settings, read: Settings) -> frozenset[str]:
    """The settings that a server can follow: of those that change, not https where there was none, nor the other way
    round, and not the issuers at which people sign in."""
    followed = _CHANGES
    if (old.tls_cert is None) != (read.tls_cert is None):
        followed -= {"tls_cert", "tls_key"}
    if old.issuers != read.issuers and any(each.client is not None for each in (*old.issuers, *read.issuers)):
        followed -= {"issuers"}
    return followed
