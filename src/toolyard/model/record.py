"""A call as the ledger knows it: what is recorded when it comes, how it ended, and the row that is read back.

These are values between the engine and the stores. What of a row changes while the call lives, and by which rules, is
`model.writes.CallState` and `model.judge`; a CallRecord is read, shown and answered from, and never written back.
"""

from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from .call import CallTool, Outcome
from .errors import ToolError
from .json_value import decode
from .lifecycle import State, WaitingFor
from .run import Run
from .tool import Tool

_encode = msgspec.json.Encoder().encode
Ran = tuple[CallTool, Run, Outcome]
"""A call without a key that has run: all that the ledger needs, as it is. Its input is the command's `input_json`."""

Family = Literal["oxp", "otc_draft", "mcp", "lifecycle"]
"""Wires that share their keys: OXP with OTC 1.0; the others each for itself, and each session for itself."""

Queue = Literal["node", "session", "worker"]
"""Who runs a call: a server's own process, whoever works on the session's requests, or a worker that has the tool."""


class CallKey(Struct, frozen=True):
    """What makes a call the same call: whose it is, over which family of wires, and the id they gave it."""

    tenant: str
    subject: str
    family: str
    call_id: str


class CallName(Struct, frozen=True):
    """Which call is meant, wherever one is spoken of outside its row: in links, codes, notes and states. A number says
    where to look; whose it is and what it asks for say that what is found there is the one."""

    seq: int
    key: CallKey
    fingerprint: bytes

    def encoded(self) -> bytes:
        """To be signed, or sealed to."""
        key = self.key
        return _encode([self.seq, key.tenant, key.subject, key.family, key.call_id, self.fingerprint.hex()])

    def digest(self) -> str:
        return sha256(self.encoded()).hexdigest()


class NewCall(Struct):
    """A call that is to be recorded: who makes it, what it asks for, how long it may take, and what it waits for."""

    key: CallKey
    keyed: bool
    """Whether the caller chose the `call_id`: only then may the call be joined, replayed or refused by it."""
    wire: str
    tool: str
    """As the caller asked for it."""
    reference: str
    """What it was resolved to: id and version."""
    input: bytes
    fingerprint: bytes = b""
    user_id: str | None = None
    trace_id: str | None = None
    sealed: bytes | None = None
    """Secrets and tokens the caller passed, sealed, where a second attempt would need them."""
    on_lost: str = "unknown"
    queue: Queue = "node"
    session: str | None = None
    turn: int = 0
    """Which of the session's messages it came with."""
    queue_s: float | None = None
    run_s: float | None = None
    total_s: float | None = None
    """How long it may wait to be claimed, run, and take in all."""
    waiting_for: WaitingFor | None = None
    """What has to come before anybody runs it."""
    ending: "Ending | None" = None
    """Of a call that ended before it began: its tool is not there, its input does not fit."""
    offer: str | None = None
    """Of a call of a worker's tool: to whom it is made, and by which definition (`model.worker.offer_of`)."""
    prints: tuple[bytes, ...] = ()
    """The fingerprints of the same input by all keys of the ring: what was recorded before the keys changed is still
    the same call."""

    @property
    def waits(self) -> bool:
        """Whether somebody else has to come before it runs: a worker, whoever works on its session, or a person."""
        return self.queue != "node" or self.waiting_for is not None

    def name(self, seq: int) -> CallName:
        """Once it is recorded under that number."""
        return CallName(seq, self.key, self.fingerprint)

    def has(self, fingerprint: bytes | None) -> bool:
        """Whether what is known by this fingerprint is the same call."""
        return fingerprint == self.fingerprint or fingerprint in self.prints

    def is_like(self, call: "CallRecord") -> bool:
        """Whether that is a call of the same caller, over the same wires, for the same."""
        mine, other = self.key, call.key
        is_same = (mine.tenant, mine.subject, mine.family) == (other.tenant, other.subject, other.family)
        return is_same and self.has(call.fingerprint)


class Ending(Struct):
    """How a call ended, as it is recorded: with a value or an error, and what that means for its key."""

    state: State
    code: str
    duration_ms: float
    value: bytes | None = None
    error: bytes | None = None
    """The ToolError as JSON."""
    releases_key: bool = False
    """The outcome says that trying again may help, so the key is free again."""
    effects: str | None = None
    """`unknown` where the tool was stopped and may have done something, `none` where it never began."""
    extra: bytes | None = None
    """What there is beside the value or the error: a `ResultExtra` as JSON."""

    @property
    def size(self) -> int:
        """In bytes, as far as it can be large."""
        return len(self.value or b"") + len(self.extra or b"")


class CallRecord(Struct):
    """A call as it was read from the ledger, with its input and its outcome. The fields are in the order of the columns
    that the stores select."""

    seq: int
    key: CallKey
    keyed: bool
    wire: str
    tool: str
    reference: str
    input: bytes
    fingerprint: bytes
    user_id: str | None
    trace_id: str | None
    sealed: bytes | None
    on_lost: str
    state: State
    code: str | None
    waiting_for: WaitingFor | None
    attempt: int
    holder: str | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    duration_ms: float | None
    value: bytes | None
    error: bytes | None
    queue: Queue = "node"
    session: str | None = None
    request: str | None = None
    """Its id within the session."""
    turn: int = 0
    losses: int = 0
    """How many of its attempts were lost."""
    lease_until: float | None = None
    heartbeat: float | None = None
    seen_at: float | None = None
    progress: bytes | None = None
    effects: str | None = None
    offer: str | None = None
    extra: bytes | None = None
    is_cut: bool = False
    """Its input or its result is large and was not read with it: it is empty, or None, here."""

    def is_of(self, tool: Tool) -> bool:
        """Whether this is the very tool that it was made to. Another may have its name by now: of another caller, or
        with another definition."""
        return self.reference == tool.reference and self.offer == tool.offer

    @property
    def name(self) -> CallName:
        return CallName(self.seq, self.key, self.fingerprint)

    @property
    def user(self) -> str:
        """Whom it was made for, as `Caller.user` has it."""
        return self.user_id or self.key.subject

    @property
    def size(self) -> int:
        """In bytes, as far as it can be large."""
        return len(self.input or b"") + len(self.value or b"") + len(self.error or b"") + len(self.extra or b"")

    def outcome(self) -> Outcome:
        """What its caller is told, the first time and every time after."""
        if self.is_cut:
            raise RuntimeError("the result of this call was not read")
        extra = None if self.extra is None else Raw(self.extra)
        if self.state is State.COMPLETE:
            return Outcome(self.key.call_id, self.duration_ms or 0.0, Raw(self.value or b"null"), extra=extra)
        return Outcome(
            self.key.call_id,
            self.duration_ms or 0.0,
            error=ToolError.from_members(decode(self.error or b"{}")),
            extra=extra,
        )


def new_call(command: CallTool, run: Run) -> NewCall:
    """What is recorded of a call that is about to run."""
    caller = run.caller
    return NewCall(
        key=CallKey(caller.tenant, caller.subject, command.family, run.call_id),
        keyed=command.call_id is not None,
        wire=command.wire,
        tool=command.tool_id,
        reference=run.tool.reference,
        input=command.input_json,
        user_id=caller.user_id,
        trace_id=run.trace_id,
        on_lost="unknown" if run.tool.rerun_needs_key and command.call_id is None else run.tool.on_lost,
    )


def ending_of(outcome: Outcome) -> Ending:
    """What is recorded of how it ended."""
    error, extra = outcome.error, None if outcome.extra is None else bytes(outcome.extra)
    if error is None:
        value = bytes(outcome.value or b"null")
        return Ending(State.COMPLETE, "success", outcome.duration_ms, value=value, extra=extra)
    return Ending(
        State.ERROR,
        error.code,
        outcome.duration_ms,
        error=_encode(error.members()),
        releases_key=error.can_retry is True,
        effects=error.effects,
        extra=extra,
    )
