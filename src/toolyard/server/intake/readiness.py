"""Whether the server takes calls: starting, ok, draining, or without its ledger."""

from ...model.errors import Unavailable
from ...supervision import Supervisor

WITHOUT_LEDGER = "without its ledger"
SOON_MS = 1000


class Readiness:
    """The server's state, as `/health` says it and as each call is let in or refused by it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.status = "starting"
        """Calls are taken while it is `ok`. Plain, because it is read for each of them; to be changed by the methods
        below alone."""

    @property
    def health(self) -> str:
        """`ok` where nothing is wrong, also with what runs beside the calls."""
        if self.status in ("ok", WITHOUT_LEDGER) and (ailing := self._supervisor.ailing):
            return f"unhealthy: {', '.join(ailing)}"
        return self.status

    def take_calls(self) -> None:
        """The server has started."""
        self.status = "ok"

    def drain(self) -> None:
        """The server leaves: what runs may end, and nothing new is taken."""
        self.status = "draining"

    def set_ledger_usable(self, usable: bool) -> None:
        """Whether the ledger can be written. A server that is starting or leaving stays so."""
        if self.status in ("ok", WITHOUT_LEDGER):
            self.status = "ok" if usable else WITHOUT_LEDGER

    def refusal(self) -> Unavailable:
        """What a call is told while the status is not ok: come back."""
        message = f"the server is {self.status}"
        return Unavailable("The server is not ready", retry_after_ms=SOON_MS, developer_message=message)
