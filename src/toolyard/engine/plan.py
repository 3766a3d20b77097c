"""engine/plan.py"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..runners.attempt import Recipe
from .concurrency import Slots


class Timeouts(Struct, frozen=True):
    """How long things may take, unless a tool says otherwise."""

    run_s: float = 300.0
    """Without saying how far it is."""
    queue_s: float = 10.0
    claim_s: float = 3600.0
    """A call that somebody elsewhere has to claim."""
    total_s: float = 86400.0
    sync_wait_s: float = 25.0
    answer_s: float = 3600.0
    """For the answer to a question."""
    most_waiting: int = 1000
    show_exceptions: bool = False
    result_bytes: int = 32 * 2**20


class Plan(Struct, frozen=True):
    """What is worked out once a tool, so that a call need not."""

    bind: Callable[[Any], dict[str, Any]]
    input_check: Any
    accepts: Callable[[Any], bool]
    recipe: Recipe
    slots: Slots | None
    has_requirements: bool
    has_accounts: bool
    """Whether a call of it needs an account of its user."""
    is_remote: bool
    may_wait: bool
    """Whether a call of it may have to wait for a person."""
    runs_authors_code: bool
    """Whether validators, or a function that decides about approvals, run for the check of a call."""
