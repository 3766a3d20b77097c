"""Calls that waited, for a person or for a worker, and lack something when they are about to begin: the account was
disconnected meanwhile, the secret removed, or the provider gives no token now. They never run with less than they need.
"""

import logging

from ..model.call import Outcome
from ..model.errors import MissingRequirements, ToolError, Unavailable
from ..model.lifecycle import Move, State
from ..model.record import CallRecord, Ending, ending_of
from ..model.standing import Hold, ended_by
from ..store.contract import Store
from ..trust.approvals import AUTHORIZATION
from ..trust.requirements import in_words

WAITING_WIRES = frozenset({"lifecycle", "mcp-task"})
"""Where a caller is shown what its call waits for, and the call goes on by itself."""
_log = logging.getLogger("toolyard.ledger")


class Lacking:
    """`wait_s`: how long they wait for an account."""

    def __init__(self, store: Store, wait_s: float) -> None:
        self._store, self._wait_s = store, wait_s

    async def hold(self, call: CallRecord, error: MissingRequirements | Unavailable) -> None:
        """A call that nobody has begun, or whose attempt was only just taken."""
        ending = ending_for(call, error)
        what = "waits for an account" if ending is None else f"ends as {ending.code}"
        _log.warning("%s (call %s) cannot begin, and %s", call.reference, call.key.call_id, what)
        await self._store.decide(Hold(call.seq, call.attempt, AUTHORIZATION, self._wait_s, ending))


def ending_for(call: CallRecord, error: MissingRequirements | Unavailable) -> Ending | None:
    """None where it waits. Whoever cannot be shown where to connect the account has to call again."""
    if isinstance(error, Unavailable) or (call.wire in WAITING_WIRES and error.missing.can_come):
        return None
    lacks = f"it needs {in_words(error.missing)}, which is no longer there"
    if call.attempt > (call.state is State.PROCESSING):  # an earlier attempt was begun
        return ended_by(Move.UNKNOWN, f"The tool cannot be run again: {lacks}")
    message = f"The call was not begun: {lacks}. Nothing was done; call again"
    return ending_of(Outcome("", 0.0, error=ToolError(message, can_retry=True)))
