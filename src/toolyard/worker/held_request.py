"""A request that this worker holds: its run here, and what the heartbeats need to know of it."""

import asyncio
import math
from contextlib import suppress
from typing import Any

from ..model.run import Run
from ..model.worker import Claimed, Renewal

Said = tuple[float, float | None, str | None]


class HeldRequest:
    """Its run is stopped when the server says that it is no longer ours. Not so the submission of an outcome: that,
    the server itself will answer."""

    def __init__(self, claimed: Claimed, run: Run) -> None:
        self.claimed, self.run = claimed, run
        self.lost_because: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._has_ended = False
        self._told: Said | None = None
        self._telling: Said | None = None

    @property
    def name(self) -> str:
        return f"{self.run.tool.reference} (call {self.run.call_id})"

    def begins(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    def ends(self) -> None:
        """The run is over, and its outcome is on its way."""
        self._has_ended = True

    def stop(self) -> None:
        """Gives the run up: what can be stopped is stopped."""
        self.run.channel.cancelled = True
        if self._task is not None and not self._has_ended:
            self._task.cancel()

    # -- from the heartbeats' thread ---------------------------------------------------------------

    def renewal(self) -> Renewal:
        """With how far the run is, if the server does not know that yet."""
        said = self._telling = self.run.last_progress
        news = None if said is None or said == self._told else _progress(said)
        return Renewal(self.claimed.session, self.claimed.request, self.claimed.attempt, news)

    def renewed(self) -> None:
        self._told = self._telling

    def lose(self, reason: str) -> None:
        """Somebody else has it, or nobody wants it. The tool can see so at once, also one that blocks the loop."""
        self.lost_because = reason
        self.run.channel.cancelled = True
        with suppress(RuntimeError):  # the loop is closed, and nothing runs
            self._loop.call_soon_threadsafe(self.stop)


def _progress(said: Said) -> dict[str, Any]:
    """Whatever the tool gave for a number: nothing in it may keep the other heartbeats from being sent."""
    done, total, message = said
    made = {"done": _number(done), "total": _number(total), "message": None if message is None else str(message)}
    return {name: value for name, value in made.items() if value is not None}


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return (int(number) if number.is_integer() else number) if math.isfinite(number) else None
