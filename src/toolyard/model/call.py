"""A call as it comes in and as it ends, in no wire's words."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from .errors import Problem, ToolError

LONGEST_CALL_ID = 256
LONGEST_USER_ID, LONGEST_TRACE_ID, LONGEST_TOOL_NAME = 512, 256, 256
"""Characters. They are kept with each call, and the ledger's quota counts a kilobyte for all that has a bound."""
CALL_ID_FORM = f"1 to {LONGEST_CALL_ID} characters and no control characters"
_encode = msgspec.json.Encoder().encode
_encode_in_order = msgspec.json.Encoder(order="sorted").encode
LARGE_INPUT = 2**16
"""Of more bytes than this the JSON that is kept has its members in order."""
_call_id = re.compile(rf"[^\x00-\x1f\x7f-\x9f]{{1,{LONGEST_CALL_ID}}}")


def is_call_id(text: str) -> bool:
    """Whether a call may have it as its key."""
    return _call_id.fullmatch(text) is not None


class CallContext(Struct, frozen=True):
    """What the caller passes along besides input: tokens and secrets by id, and whom it speaks for."""

    tokens: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    user_id: str | None = None
    user_info: Mapping[str, Any] = {}


class Brought(CallContext, frozen=True):
    """What is kept, sealed, of what a caller passed along, for a later attempt; and whose token showed who it was,
    where that is a person's: who may speak for which user is asked again when the attempt is given something."""

    issuer: str | None = None


NO_CONTEXT = CallContext()


class CallTool(Struct):
    """Call a tool. Without a `call_id` the call has no idempotency key."""

    tool_id: str
    input: dict[str, Any]
    call_id: str | None = None
    trace_id: str | None = None
    context: CallContext = NO_CONTEXT
    """What the caller brought."""
    latest: bool = False
    """Whether this wire has `@latest`."""
    wire: str = ""
    family: str = ""
    """Wires that share their keys."""
    is_patient: bool = False
    """Whether whoever asks waits for as long as it takes."""
    answers: Mapping[str, Any] = {}
    """To what the tool will ask, by the question's name."""
    filled: CallContext | None = None
    """What it is run with: what its tool declares, as far as it was brought or is kept here. It goes with the run: what
    is kept may be another when the call is run later."""
    problems: tuple[Problem, ...] | None = None
    """What is wrong with the input of a tool whose schema a stranger brought, once that was found out."""
    input_json: bytes = b""
    """The input as it came: what is recorded, fingerprinted and audited, whatever a tool does with `input`."""

    def keep_input(self) -> None:
        """Before any of the author's code runs: validators, hooks and tools share `input` and may change it. Of a large
        one the members are put in order, so that nobody has to decode it again for its fingerprint."""
        if not self.input_json:
            encoded = _encode(self.input)
            self.input_json = encoded if len(encoded) <= LARGE_INPUT else _encode_in_order(self.input)

    @property
    def given(self) -> CallContext:
        return self.context if self.filled is None else self.filled


class ListTools(Struct, frozen=True):
    """List the tools: the newest version of each, or all."""

    all_versions: bool = False


class Outcome(Struct):
    """How a call ended: `value` as JSON bytes, or the error."""

    call_id: str
    duration_ms: float
    value: Raw | None = None
    error: ToolError | None = None
