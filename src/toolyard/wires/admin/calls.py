"""Calls of all callers, as operators list, cancel and resolve them, in both directions.

To resolve a call is to say how one ended whose outcome nobody knows. A call has the members of the lifecycle API, and
a few more: whose call it is, who holds it, how many attempts were lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from ...model.caller import LOCAL
from ...model.errors import InvalidInput, Problem, ToolError
from ...model.json_value import decode_as
from ...model.lifecycle import CODES, Move, State
from ...model.record import CallRecord, Ending
from ..contract import JSON, Reply, Request
from ..errors import encode
from ..json_body import parse, text
from ..lifecycle.calls import call_json, others_json, query_of

PATH = "/v1/admin/calls"
SETTLEMENTS = ("done", "failed", "rerun")
FAILED = "The tool failed, as was found out later"


class WhichCall(Struct, frozen=True):
    """The call that an operator means: its id, and whose it is and in which family, where several calls have it."""

    call_id: str
    caller: str | None = None
    family: str | None = None

    @property
    def path(self) -> str:
        return f"{PATH}/{quote(self.call_id, safe='')}"

    @property
    def query(self) -> dict[str, str | None]:
        return {"caller": self.caller, "family": self.family}


class _Done(Struct):
    """The value that a call is resolved with, as it was written: decoding it would lose what Python's numbers cannot
    hold."""

    done: Raw


# -- the server's side -----------------------------------------------------------------------------


def encode_call(call: CallRecord, other_families: Sequence[str] = ()) -> Reply:
    return Reply(200, encode(_call(call) | others_json(other_families)), [JSON])


def encode_calls(calls: Sequence[CallRecord], limit: int) -> Reply:
    """One page of calls, with a cursor where there may be more."""
    body: dict[str, Any] = {"calls": [_call(call) for call in calls]}
    if len(calls) == limit:
        body["cursor"] = str(calls[-1].seq)
    return Reply(200, encode(body), [JSON])


def decode_settlement(body: bytes) -> Ending | None:
    """How an operator says that a call ended; None: it is to be run once more."""
    members = parse(body)
    given = [name for name in SETTLEMENTS if name in members]
    if len(given) != 1:
        raise InvalidInput((Problem("body", "Must have one of done, failed and rerun"),))
    message = members.maybe("failed", text, None)
    members.maybe("done", lambda value: value, None)
    members.maybe("rerun", _true, None)
    members.done()
    if given == ["rerun"]:
        return None
    if given == ["done"]:
        # Without white space, as every value in the ledger is.
        value = msgspec.json.format(decode_as(body, _Done).done, indent=-1)
        return Ending(State.COMPLETE, CODES[Move.COMPLETE], 0.0, value=value)
    error = ToolError(message or FAILED, can_retry=False)
    return Ending(State.ERROR, CODES[Move.FAIL], 0.0, error=encode(error.members()))


def _true(value: Any) -> bool:
    if value is not True:
        raise ValueError("Must be true")
    return True


def _call(call: CallRecord) -> dict[str, Any]:
    more: dict[str, Any] = {
        "callId": call.key.call_id,
        "caller": call.key.subject,
        "tenant": call.key.tenant if call.key.tenant != LOCAL.tenant else None,
        "userId": call.user_id,
        "losses": call.losses or None,
        "holder": call.holder if call.state is State.PROCESSING else None,
    }
    return {name: value for name, value in more.items() if value is not None} | call_json(call)


# -- a client's side -------------------------------------------------------------------------------


def encode_list(wanted: Mapping[str, str | None]) -> Request:
    return Request("GET", PATH, query=query_of(wanted))


def encode_show(which: WhichCall, wait_s: float) -> Request:
    wait = f"{wait_s:g}" if wait_s else None
    return Request("GET", which.path, query=query_of({**which.query, "wait": wait}))


def encode_cancel(which: WhichCall) -> Request:
    return Request("POST", f"{which.path}/cancel", query=query_of(which.query))


def encode_settlement(which: WhichCall, how: Mapping[str, Any]) -> Request:
    """Resolves a call. `how` is one of {"done": value}, {"failed": message} and {"rerun": True}."""
    return Request("POST", f"{which.path}/resolve", dict([JSON]), encode(how), query_of(which.query))
