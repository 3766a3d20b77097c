"""The life of a call, as data: the states it can be in, the moves between them, and what it can wait for.

This table is the one statement of the lifecycle. `model.judge` takes every step through it, the stores' SQL is tested
against `model.judge`, and tests hold that each move of the table is made by some write and that no other one is. So
whoever wants to know what can happen to a call reads this page, and whoever adds a move adds it here first.
"""

from enum import StrEnum


class State(StrEnum):
    """The four states of the lifecycle document. Why a call ended is its `code`; what it waits for is `waiting_for`."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"


class WaitingFor(StrEnum):
    """What has to come before a call goes on. A call that waits for a person or an account is PENDING, and nobody can
    claim it; one that waits for an answer is PROCESSING, because its run is parked in the middle."""

    APPROVAL = "approval"
    """A person's yes or no."""
    AUTHORIZATION = "authorization"
    """An account that the call's user has to connect."""
    ANSWER = "answer"
    """The client's answer to a question of the running tool."""


FOR_A_PERSON = frozenset({WaitingFor.APPROVAL, WaitingFor.AUTHORIZATION})
"""What a person comes to a page of the server for."""


class Move(StrEnum):
    """What can happen to a call after it was recorded."""

    CLAIM = "claim"
    """A worker, or the owner of the session, takes the next attempt."""
    RESTART = "restart"
    """A node takes the next attempt at a call that nobody runs: released, handed back, or lost with its node."""
    RENEW = "renew"
    """A heartbeat extends the lease of the attempt."""
    ASK = "ask"
    """The running tool puts a question to its client."""
    WAIT = "wait"
    """The call lacks an account just as it is about to begin. An attempt that was claimed for it does not count."""
    RESUME = "resume"
    """What the call waited for has come; or it waits for the next thing."""
    RELEASE = "release"
    """Whoever runs the attempt hands it back. Nothing was lost."""
    LOSE = "lose"
    """The lease of the attempt ran out, and the tool may run again."""
    COMPLETE = "complete"
    FAIL = "fail"
    REJECT = "reject"
    """A person said no."""
    EXPIRE = "expire"
    """One of the call's times is over: to be claimed, to run, or in all."""
    CANCEL = "cancel"
    ABANDON = "abandon"
    """Too many attempts were lost, or the call can never be given to a worker."""
    UNKNOWN = "unknown"
    """An attempt was lost, or the ledger went back to a copy, and nobody can say whether the tool had its effect."""
    GO_BACK = "go_back"
    """The ledger went back to a copy in which the call had not ended, and the tool may run again."""
    REOPEN = "reopen"
    """A person has a call run once more whose outcome is unknown."""


TRANSITIONS: dict[State, dict[Move, State]] = {
    State.PENDING: {
        Move.CLAIM: State.PROCESSING,
        Move.RESTART: State.PROCESSING,
        Move.WAIT: State.PENDING,
        Move.RESUME: State.PENDING,
        Move.GO_BACK: State.PENDING,
        Move.FAIL: State.ERROR,
        Move.REJECT: State.ERROR,
        Move.EXPIRE: State.ERROR,
        Move.CANCEL: State.ERROR,
        Move.ABANDON: State.ERROR,
        Move.UNKNOWN: State.ERROR,
    },
    State.PROCESSING: {
        Move.RENEW: State.PROCESSING,
        Move.RESTART: State.PROCESSING,
        Move.ASK: State.PROCESSING,
        Move.RESUME: State.PROCESSING,
        Move.WAIT: State.PENDING,
        Move.RELEASE: State.PENDING,
        Move.LOSE: State.PENDING,
        Move.GO_BACK: State.PENDING,
        Move.COMPLETE: State.COMPLETE,
        Move.FAIL: State.ERROR,
        Move.EXPIRE: State.ERROR,
        Move.CANCEL: State.ERROR,
        Move.ABANDON: State.ERROR,
        Move.UNKNOWN: State.ERROR,
    },
    State.COMPLETE: {},
    # A person resolves a call that ended as UNKNOWN, and no other: `judge` looks at the code, the table at the state.
    State.ERROR: {
        Move.COMPLETE: State.COMPLETE,
        Move.FAIL: State.ERROR,
        Move.REOPEN: State.PENDING,
    },
}

ENDED = frozenset({State.COMPLETE, State.ERROR})
"""The states in which a call has an outcome, and in which only a person's `resolve` changes anything."""

CODES: dict[Move, str] = {
    Move.COMPLETE: "success",
    Move.FAIL: "tool_failed",
    Move.REJECT: "rejected",
    Move.EXPIRE: "timed_out",
    Move.CANCEL: "cancelled",
    Move.ABANDON: "abandoned",
    Move.UNKNOWN: "outcome_unknown",
}
"""Why a call ended, by the move that ended it. A tool that fails may give a code of its own, and not `tool_failed`."""
