"""A call as it comes in and as it ends, the same whichever wire it came by.

Every wire decodes its requests into `CallTool` and `ListTools`, and encodes its replies from `Outcome`.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .errors import Problem, ToolError
from .json_value import decoder

LONGEST_CALL_ID = 256
LONGEST_USER_ID, LONGEST_TRACE_ID, LONGEST_TOOL_NAME = 512, 256, 256
"""Characters. They are kept with each call, and the ledger's quota counts a kilobyte for all that has a bound."""
CALL_ID_FORM = f"1 to {LONGEST_CALL_ID} characters and no control characters"
_encode = msgspec.json.Encoder().encode
_encode_in_order = msgspec.json.Encoder(order="sorted").encode
LARGE_INPUT = 2**16
"""Input of more bytes than this is kept as JSON with its members in order."""
_call_id = re.compile(rf"[^\x00-\x1f\x7f-\x9f]{{1,{LONGEST_CALL_ID}}}")


def is_call_id(text: str) -> bool:
    """Whether a text may be a call's idempotency key."""
    return _call_id.fullmatch(text) is not None


class CallContext(Struct, frozen=True):
    """What a caller sends along besides input: tokens and secrets by id, and the end user it speaks for."""

    tokens: Mapping[str, str] = {}
    secrets: Mapping[str, str] = {}
    user_id: str | None = None
    user_info: Mapping[str, Any] = {}


class Brought(CallContext, frozen=True):
    """A caller's context as it is kept, sealed, for a later attempt, with the issuer of the caller's token where that
    is a person's: a later attempt asks again which user that person may speak for."""

    issuer: str | None = None


NO_CONTEXT = CallContext()


class CallTool(Struct):
    """A request to call a tool. Without a `call_id` the call has no idempotency key."""

    tool_id: str
    input: dict[str, Any]
    call_id: str | None = None
    trace_id: str | None = None
    context: CallContext = NO_CONTEXT
    """As the caller sent it."""
    latest: bool = False
    """Whether this wire has `@latest`, as the OTC draft has."""
    wire: str = ""
    family: str = ""
    """The wires that share one space of idempotency keys, such as OXP and OTC 1.0."""
    is_patient: bool = False
    """Whether the caller waits for as long as the call takes, instead of `sync_wait_s`."""
    answers: Mapping[str, Any] = {}
    """The caller's answers to the tool's questions, by the question's name."""
    filled: CallContext | None = None
    """The context that the tool is run with: what it declares, from what the caller sent and what is kept here. It is
    not recorded: when the call is run again later, secrets and accounts that are kept here may have changed."""
    problems: tuple[Problem, ...] | None = None
    """What is wrong with the input of a worker's tool, once that was validated (`None`: not yet). A stranger's schema
    is validated apart, before the call is prepared."""
    meta: Mapping[str, Any] = {}
    """Members of MCP's `_meta` that this server does not read: they are for whoever runs the tool elsewhere."""
    input_json: bytes = b""
    """The input as it arrived: what is recorded, fingerprinted and audited, whatever a tool does to `input`."""

    def keep_input(self) -> None:
        """Encodes the input into `input_json`. It has to happen before any of the author's code runs: validators, hooks
        and tools share `input` and may change it."""
        # A large one is encoded with its members in order, so that it need not be decoded again for its fingerprint.
        if not self.input_json:
            encoded = _encode(self.input)
            self.input_json = encoded if len(encoded) <= LARGE_INPUT else _encode_in_order(self.input)

    @property
    def given(self) -> CallContext:
        """The context that the tool gets: the filled one, or else the caller's own."""
        return self.context if self.filled is None else self.filled


class ListTools(Struct, frozen=True):
    """A request to list the tools: the newest version of each, or all versions."""

    all_versions: bool = False


class ResultExtra(Struct, frozen=True, omit_defaults=True):
    """What a result of another MCP server has beside the one value that every wire shows, or beside the error that it
    is: all of it as JSON. Nothing is kept twice: content that is the value, or no more than the value's text, is not
    here."""

    content: Raw | UnsetType = UNSET
    """MCP's blocks as they came, where the value is something else: for models, beside the structured value."""
    is_content: bool = False
    """Whether the value itself is MCP's blocks."""
    meta: Raw | UnsetType = UNSET
    """The `_meta` of the result as it came."""

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(len(each) for each in (self.content, self.meta) if isinstance(each, Raw))


decode_extra = decoder(ResultExtra)
"""Of JSON, as an outcome and the ledger have it."""


class Outcome(Struct):
    """How a call ended: with a value, or with an error of its tool."""

    call_id: str
    """The call's id."""
    duration_ms: float
    """How long the tool ran."""
    value: Raw | None = None
    """The result as encoded JSON; None where the tool failed."""
    error: ToolError | None = None
    """What the tool failed with; None where it did not."""
    extra: Raw | None = None
    """A `ResultExtra` as encoded JSON: what there is beside the value or the error; None for most results."""

    @property
    def size(self) -> int:
        """In bytes, as far as the result can be large."""
        return len(self.value or b"") + len(self.extra or b"")
