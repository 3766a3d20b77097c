"""Whether the server takes calls: starting, ok, or draining."""

from ..model.errors import Unavailable


class Readiness:
    """What `/health` says."""

    def __init__(self) -> None:
        self.status = "starting"

    def require(self) -> None:
        """Refuses a call while the server is not ready; the client is told to come back."""
        if self.status != "ok":
            raise Unavailable(
                "The server is not ready",
                retry_after_ms=1000,
                developer_message=f"the server is {self.status}",
            )
