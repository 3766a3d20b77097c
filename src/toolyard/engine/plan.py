"""What the engine works out before calls come: how long things may take, and for each tool its plan. A call only looks
these up, which is what makes it cheap."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..runners.attempt import Recipe
from .concurrency import Slots


class Timeouts(Struct, frozen=True):
    """How long things may take, unless a tool says otherwise, and how much of them there may be."""

    run_s: float = 300.0
    """A run that does not say how far it is."""
    queue_s: float = 10.0
    """The wait for one of a tool's concurrent runs to end."""
    claim_s: float = 3600.0
    """The wait of a call until somebody elsewhere claims it."""
    total_s: float = 86400.0
    """A call in all, whatever it says."""
    sync_wait_s: float = 25.0
    """A client's wait for its answer; then it is told to come back."""
    answer_s: float = 3600.0
    """The wait for the answer to a question."""
    most_waiting: int = 1000
    """How many calls of a tool may wait for a concurrent run to end."""
    show_exceptions: bool = False
    result_bytes: int = 32 * 2**20


class Plan(Struct, frozen=True):
    """How a tool is called: its validators, its runner's recipe, and what its calls pass on their way. Worked out once,
    when the tool comes into the catalogue."""

    bind: Callable[[Any], dict[str, Any]]
    input_check: Any
    """None where the sandbox checks the input."""
    accepts: Callable[[Any], bool]
    recipe: Recipe
    slots: Slots | None
    has_requirements: bool
    has_accounts: bool
    """Whether a call of it needs an account of its user."""
    has_foreign_schemas: bool
    """Whether the sandbox checks input and results."""
    needs_filling: bool
    """Whether a call has to wait for something before it can be checked: for what is kept here for it, or for the
    sandbox."""
    may_need_approval: bool
    """Whether a call of it may have to wait for a person."""
    is_durable: bool
    """Whether a call is recorded before it runs even without a key: it may wait for a worker, or for a person."""
    looks_first: bool
    """Whether a call is looked up in the ledger before it is prepared: the author's code, or something that takes its
    time, would run for nothing where the call is known. (For others that is one look less: `begin` finds it.)"""
