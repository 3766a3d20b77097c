"""Whether the server takes calls, and whether it should be sent any: two questions, because a server that is told to
stop goes on taking calls until those who send them have noticed that it is about to leave.
"""

from enum import StrEnum

from ...model.errors import Unavailable
from ...supervision import Supervisor

WITHOUT_LEDGER = "without its ledger"
SOON_MS = 1000


class LifeStage(StrEnum):
    """How far a server's life has come, in the words of `/health`."""

    STARTING = "starting"
    OK = "ok"
    DRAINING = "draining"


class Readiness:
    """The server's state, as `/health` and `/ready` say it and as each call is let in or refused by it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._stage, self._has_ledger, self._is_leaving = LifeStage.STARTING, True, False
        self.takes_calls = False
        """Whether a call is let in. Plain, because it is read for each of them; to be changed by the methods below
        alone."""

    @property
    def health(self) -> str:
        """`ok` where the server should be sent calls: nothing is wrong with it, nor with what runs beside the calls."""
        if self._stage is LifeStage.OK and (ailing := self._supervisor.ailing):
            return f"unhealthy: {', '.join(ailing)}"
        return self._status

    @property
    def _status(self) -> str:
        return WITHOUT_LEDGER if self._stage is LifeStage.OK and not self._has_ledger else self._stage

    def take_calls(self) -> None:
        """The server has started, perhaps again."""
        self._stage, self._is_leaving = LifeStage.OK, False
        self._decide()

    def drain(self) -> None:
        """The server is to be sent no more calls: it says so, and takes those that come all the same."""
        self._stage = LifeStage.DRAINING
        self._decide()

    def refuse_calls(self) -> None:
        """The server leaves: what runs may end, and nothing new is taken."""
        self._stage, self._is_leaving = LifeStage.DRAINING, True
        self._decide()

    def set_ledger_usable(self, usable: bool) -> None:
        """Whether the ledger can be written."""
        self._has_ledger = usable
        self._decide()

    def _decide(self) -> None:
        self.takes_calls = self._stage is not LifeStage.STARTING and self._has_ledger and not self._is_leaving

    def refusal(self) -> Unavailable:
        """What a call is told that is not let in: come back."""
        why = self._status if self._has_ledger or self._is_leaving else WITHOUT_LEDGER
        return Unavailable("The server is not ready", retry_after_ms=SOON_MS, developer_message=f"the server is {why}")
