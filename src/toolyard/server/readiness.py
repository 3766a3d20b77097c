"""Whether the server takes calls: starting, ok, or draining."""

from ..model.errors import Unavailable


class Readiness:
    """What `/health` says."""

    def __init__(self) -> None:
        self.status = "starting"

    def refusal(self) -> Unavailable:
        """What a call is told while the status is not ok: come back."""
        message = f"the server is {self.status}"
        return Unavailable("The server is not ready", retry_after_ms=1000, developer_message=message)
