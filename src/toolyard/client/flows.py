"""What a client does, written once: generators that yield requests and are sent replies.

They wait by yielding a `Pause`. `client.py` drives them, with or without `await`.
"""

from collections.abc import Generator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..model.call import CallTool, ListTools, Outcome
from ..model.errors import Busy
from ..wires.contract import Reply, Request, Wire
from ..wires.lifecycle import LIFECYCLE


class Pause(Struct, frozen=True):
    """Wait so long, then go on."""

    seconds: float


Flow = Generator[Request | Pause, Reply | None, Any]
LONGEST_PAUSE_S = 30.0
FIRST_PAUSE_S = 0.25


def call(wire: Wire, command: CallTool, retries: int) -> Flow:
    """Calls a tool and tries again where the server says that this may help. Returns the last Outcome."""
    for attempt in range(retries + 1):
        try:
            reply = yield wire.encode_request(command)
            assert reply is not None  # noqa: S101
            outcome = wire.decode_outcome(reply)
        except Busy as busy:
            if attempt == retries:
                raise
            yield Pause(_pause(busy.retry_after_ms, attempt))
            continue
        error = outcome.error
        if error is None or not error.can_retry or attempt == retries:
            return outcome
        yield Pause(_pause(error.retry_after_ms, attempt))
    raise AssertionError("the last attempt returns or raises")


def list_tools(wire: Wire, *, all_versions: bool, for_model: bool) -> Flow:
    """The tools, as the wire describes them; `for_model` without the parameters that a model must not fill in."""
    reply = yield wire.encode_request(ListTools(all_versions))
    assert reply is not None  # noqa: S101
    tools = wire.decode_list(reply)
    if for_model:
        for tool in tools:
            _hide(tool)
    return tools


def show_call(call_id: str, wait_s: float) -> Flow:
    """A call of the caller's, as the ledger has it."""
    reply = yield LIFECYCLE.encode_show(call_id, wait_s)
    assert reply is not None  # noqa: S101
    return LIFECYCLE.decode(reply)


def list_calls(wanted: Mapping[str, str | None]) -> Flow:
    """The caller's calls, newest first."""
    reply = yield LIFECYCLE.encode_list(wanted)
    assert reply is not None  # noqa: S101
    return LIFECYCLE.decode(reply)["calls"]


def health() -> Flow:
    """Whether the server takes calls."""
    reply = yield Request("GET", "/health")
    return reply is not None and reply.status == 200


def value_of(outcome: Outcome) -> Any:
    """What the tool returned. Raises the ToolError it failed with."""
    if outcome.error is not None:
        raise outcome.error
    return msgspec.json.decode(outcome.value) if outcome.value is not None else None


def _hide(tool: dict[str, Any]) -> None:
    """Takes hidden parameters out of a tool's schema, wherever its wire keeps that."""
    kept = tool.get("input") or tool.get("input_schema") or {}
    schema = kept.get("parameters", kept)
    properties = schema.get("properties", {})
    hidden = {name for name, shown in properties.items() if shown.get("x-non-inferrable")}
    hidden.update(kept.pop("non_inferrable_parameters", ()))
    for name in hidden:
        properties.pop(name, None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in hidden]


def _pause(retry_after_ms: int | None, attempt: int) -> float:
    wanted = FIRST_PAUSE_S * 2**attempt if retry_after_ms is None else retry_after_ms / 1000
    return min(max(wanted, 0.0), LONGEST_PAUSE_S)
