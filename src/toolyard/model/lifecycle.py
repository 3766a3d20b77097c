"""The life of a call, as data: which states there are, and what leads from one to another.

The codes and the states that end a call are read from here; the conditional writes of the stores follow the table.
"""

from enum import StrEnum


class State(StrEnum):
    """The four states of the lifecycle document. Why a call ended is its `code`; what it waits for is `waiting_for`."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"


class Move(StrEnum):
    """What can happen to a call."""

    CLAIM = "claim"
    RENEW = "renew"
    WAIT = "wait"
    RELEASE = "release"
    LOSE = "lose"
    COMPLETE = "complete"
    FAIL = "fail"
    REJECT = "reject"
    EXPIRE = "expire"
    CANCEL = "cancel"
    ABANDON = "abandon"
    UNKNOWN = "unknown"


TRANSITIONS: dict[State, dict[Move, State]] = {
    State.PENDING: {
        Move.CLAIM: State.PROCESSING,
        Move.COMPLETE: State.COMPLETE,
        Move.FAIL: State.ERROR,
        Move.REJECT: State.ERROR,
        Move.EXPIRE: State.ERROR,
        Move.CANCEL: State.ERROR,
    },
    State.PROCESSING: {
        Move.RENEW: State.PROCESSING,
        Move.WAIT: State.PENDING,
        Move.RELEASE: State.PENDING,
        Move.LOSE: State.PENDING,
        Move.COMPLETE: State.COMPLETE,
        Move.FAIL: State.ERROR,
        Move.CANCEL: State.ERROR,
        Move.EXPIRE: State.ERROR,
        Move.ABANDON: State.ERROR,
        Move.UNKNOWN: State.ERROR,
    },
    State.COMPLETE: {},
    State.ERROR: {},
}

ENDED = frozenset(state for state, moves in TRANSITIONS.items() if not moves)

CODES: dict[Move, str] = {
    Move.COMPLETE: "success",
    Move.FAIL: "tool_failed",
    Move.REJECT: "rejected",
    Move.EXPIRE: "timed_out",
    Move.CANCEL: "cancelled",
    Move.ABANDON: "abandoned",
    Move.UNKNOWN: "outcome_unknown",
}
"""Why a call ended, by the move that ended it."""
