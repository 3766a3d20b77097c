"""What a client does, written once: generators that yield requests and are sent replies.

They wait by yielding a `Pause`. `client.py` drives them, with or without `await`.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from ..model.call import CallTool, ListTools, Outcome
from ..model.errors import Busy, Challenge, RequestError, ToolError
from ..model.json_value import decode
from ..model.lifecycle import ENDED, State
from ..wires.contract import OxpFamilyWire, Reply, Request
from ..wires.lifecycle.calls import LIFECYCLE
from ..wires.lifecycle.worker_client import encode_cancel_call
from ..wires.oxp.client_replies import body_of


class Pause(Struct, frozen=True):
    """Wait so long, then go on. `reason` is what a person may be told meanwhile."""

    seconds: float
    reason: str = ""


Flow = Generator[Request | Pause, Reply | None, Any]
LONGEST_PAUSE_S = 120.0
"""Who is told to wait longer gives up instead: coming back earlier than told would be the worse mistake."""
FIRST_PAUSE_S = 0.25
WAIT_S = 20.0
"""How long one request waits for a call's end. Who wants to wait longer asks again."""


def call(wire: OxpFamilyWire, command: CallTool, retries: int) -> Flow:
    """Calls a tool and tries again where the server says that this may help. Returns the last Outcome."""
    return (yield from tried(lambda: _asked(wire, command), retries))


def call_to_its_end(wire: OxpFamilyWire, command: CallTool, retries: int) -> Flow:
    """The same, and a call that is still running is waited for, however long it takes."""
    return (yield from tried(lambda: _waited_for(wire, command), retries))


def says_retry(error: ToolError) -> bool:
    return error.can_retry is True


def tried(once: Callable[[], Flow], retries: int, may_help: Callable[[ToolError], bool] = says_retry) -> Flow:
    """Once, and again where this may help, never earlier than the server says."""
    for attempt in range(retries + 1):
        try:
            outcome = yield from once()
        except Busy as busy:
            if attempt == retries:
                raise
            yield pause_after(busy, attempt)
            continue
        error = outcome.error
        if error is None or not may_help(error) or attempt == retries or not _is_soon(error.retry_after_ms):
            return outcome
        yield Pause(pause_of(error.retry_after_ms, attempt), error.message)
    raise AssertionError("the last attempt returns or raises")


def _asked(wire: OxpFamilyWire, command: CallTool) -> Flow:
    return wire.decode_outcome((yield from _reply(wire.encode_request(command))))


def _waited_for(wire: OxpFamilyWire, command: CallTool) -> Flow:
    """`can_retry` is said of what has failed and of what still runs. The ledger knows which, if the server has one."""
    outcome = yield from _asked(wire, command)
    if outcome.error is None or not outcome.error.can_retry or command.call_id is None:
        return outcome
    return (yield from _ended(command.call_id, wire.family)) or outcome


def _ended(call_id: str, family: str) -> Flow:
    """How the call of these wires ended, as soon as it has; None: nobody there can tell."""
    state = None
    while state not in ENDED:
        try:
            found = yield from show_call(call_id, WAIT_S, family)
        except RequestError:
            return None
        except Busy as busy:
            yield pause_after(busy)
            continue
        state = found.get("state")
        if state is None:
            return None
    return _outcome(found)


def _outcome(shown: Mapping[str, Any]) -> Outcome:
    outcome = Outcome(shown["callId"], shown.get("durationMs", 0.0))
    if shown["state"] == State.COMPLETE:
        outcome.value = Raw(msgspec.json.encode(shown["value"]))
    else:
        outcome.error = ToolError.from_members(shown["error"])
    return outcome


def list_tools(wire: OxpFamilyWire, *, all_versions: bool, for_model: bool) -> Flow:
    """The tools, as the wire describes them; `for_model` without the parameters that a model must not fill in."""
    tools = wire.decode_list((yield from _reply(wire.encode_request(ListTools(all_versions)))))
    if for_model:
        for tool in tools:
            _hide(tool)
    return tools


def show_call(call_id: str, wait_s: float, family: str | None) -> Flow:
    """A call of the caller's, as the ledger has it; the newest of that id, where no family is named."""
    return (yield from shown(lambda seconds: LIFECYCLE.encode_show(call_id, seconds, family), wait_s))


def list_calls(wanted: Mapping[str, str | None]) -> Flow:
    """The caller's calls, newest first."""
    return LIFECYCLE.decode((yield from _reply(LIFECYCLE.encode_list(wanted))))["calls"]


def cancel_call(call_id: str, family: str | None) -> Flow:
    """The call after that: cancelled, or as it had ended before."""
    return LIFECYCLE.decode((yield from _reply(encode_cancel_call(call_id, family))))


def check_challenge(challenge: Challenge) -> Flow:
    """How it stands: `failed`, too, where what answers does not say."""
    reply: Reply = yield from _reply(Request("GET", urlsplit(challenge.check_url).path))
    return str(body_of(reply).get("status", "failed"))


def shown(encode: Callable[[float], Request], wait_s: float) -> Flow:
    """A call, once it has ended or `wait_s` is over. A server waits only so long for one request, so there may be
    several; `encode` makes one that waits for the given seconds."""
    while True:
        wait = min(wait_s, WAIT_S)
        call = LIFECYCLE.decode((yield from _reply(encode(wait))))
        wait_s -= wait
        if wait_s <= 0 or call.get("state") in ENDED:
            return call


def _reply(request: Request) -> Generator[Request | Pause, Reply | None, Reply]:
    reply = yield request
    assert reply is not None  # noqa: S101
    return reply


def health() -> Flow:
    """Whether the server takes calls."""
    reply = yield Request("GET", "/health")
    return reply is not None and reply.status == 200


def value_of(outcome: Outcome) -> Any:
    """What the tool returned. Raises the ToolError it failed with."""
    if outcome.error is not None:
        raise outcome.error
    return decode(outcome.value) if outcome.value is not None else None


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


def pause_after(busy: Busy, attempt: int = 0) -> Pause:
    """Raises what the server said where that takes too long."""
    if not _is_soon(busy.retry_after_ms):
        raise busy
    return Pause(pause_of(busy.retry_after_ms, attempt), busy.message)


def pause_of(retry_after_ms: int | None, attempt: int) -> float:
    """How long to wait before another attempt, in seconds."""
    if retry_after_ms is None:
        return min(FIRST_PAUSE_S * float(2**attempt), LONGEST_PAUSE_S)
    return max(retry_after_ms / 1000, 0.0)


def _is_soon(retry_after_ms: int | None) -> bool:
    return retry_after_ms is None or retry_after_ms <= LONGEST_PAUSE_S * 1000
