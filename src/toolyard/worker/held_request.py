"""A request that this worker has claimed: its run, and what the heartbeats need to know of it."""

import asyncio
import math
from contextlib import suppress
from typing import Any

from ..model.run import Run
from ..model.worker import Claimed, Renewal

Progress = tuple[float, float | None, str | None]
"""What a tool last reported: how much is done, of how much, and a message."""


class HeldRequest:
    """A claimed request and its run. When the server says that the request is no longer this worker's, the run is
    stopped; but not once the outcome is being submitted: then the server's answer to that decides."""

    def __init__(self, claimed: Claimed, run: Run) -> None:
        self.claimed, self.run = claimed, run
        self.lost_because: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._has_ended = False
        # The progress that the server knows, and the one that is in the heartbeat under way.
        self._acknowledged: Progress | None = None
        self._sent: Progress | None = None

    @property
    def name(self) -> str:
        return f"{self.run.tool.reference} (call {self.run.call_id})"

    def begins(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def ends(self) -> None:
        """Notes that the run is over, and its outcome is being submitted."""
        self._has_ended = True

    def stop(self) -> None:
        """Stops the run, as far as it can be stopped."""
        self.run.channel.cancelled = True
        if self._task is not None and not self._has_ended:
            self._task.cancel()

    # -- from the heartbeats' thread ---------------------------------------------------------------

    def renewal(self) -> Renewal:
        """The heartbeat for this request, with the run's progress if the server does not know that yet."""
        progress = self._sent = self.run.last_progress
        news = None if progress is None or progress == self._acknowledged else _progress_json(progress)
        return Renewal(self.claimed.session, self.claimed.request, self.claimed.attempt, news)

    def renewed(self) -> None:
        """Notes that the server has taken the heartbeat."""
        self._acknowledged = self._sent

    def lose(self, reason: str) -> None:
        """Stops the run because the request is somebody else's now, or not wanted any more."""
        # Set at once and here, not on the loop: a tool that blocks the loop can still see it.
        self.lost_because = reason
        self.run.channel.cancelled = True
        with suppress(RuntimeError):  # the loop is closed, and nothing runs
            self._loop.call_soon_threadsafe(self.stop)


def _progress_json(progress: Progress) -> dict[str, Any]:
    """The progress as JSON. A tool may report anything as a number; nothing in it may keep the heartbeats of the other
    requests, which go along in the same body, from being sent."""
    done, total, message = progress
    members = {"done": _number(done), "total": _number(total), "message": None if message is None else str(message)}
    return {name: value for name, value in members.items() if value is not None}


def _number(value: Any) -> float | None:
    """A finite number as JSON has it; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (int(number) if number.is_integer() else number) if math.isfinite(number) else None
