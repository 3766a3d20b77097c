"""Whether the server takes calls: starting, ok, draining, or without its ledger."""

from ...model.errors import Unavailable
from ...supervision import Supervisor

WITHOUT_LEDGER = "without its ledger"


class Readiness:
    """What `/health` says."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self.status = "starting"
        """Whether calls are taken: read for each of them."""

    @property
    def health(self) -> str:
        """`ok` where nothing is wrong, also with what runs beside the calls."""
        if self.status in ("ok", WITHOUT_LEDGER) and (ailing := self._supervisor.ailing):
            return f"unhealthy: {', '.join(ailing)}"
        return self.status

    def ledger_is(self, usable: bool) -> None:
        """A server that is starting or leaving stays so."""
        if self.status in ("ok", WITHOUT_LEDGER):
            self.status = "ok" if usable else WITHOUT_LEDGER

    def refusal(self) -> Unavailable:
        """What a call is told while the status is not ok: come back."""
        message = f"the server is {self.status}"
        return Unavailable("The server is not ready", retry_after_ms=1000, developer_message=message)
