"""OXP 1.0 in its two forms: flat, as its pages show it, and enveloped in `request` and `result`, as its OpenAPI
document has it. OTC 1.0 (`otc`) builds on the same results and tools."""

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct

from ...model.call import CallTool, ListTools, Outcome
from ...model.errors import ToolError, ToolyardError
from ...model.record import Family
from ...model.tool import Tool
from ..contract import JSON, Headers, Reply, Request
from ..errors import encode, error_headers, error_json, status_of
from .client_replies import outcome_from, tools_from
from .messages import OXP_1_0, list_query, request_json, requirements_json

VERSION = (b"oxp-version", b"1.0")
"""On every reply, errors and `/health` included."""


class Success(Struct):
    """The result of a call that succeeded. It is made for every call, so it is a struct, which is faster than a
    dict."""

    call_id: str
    duration: float
    success: bool
    value: Raw


def result_bytes(outcome: Outcome) -> bytes:
    """A call's result as a JSON object."""
    if outcome.value is not None:
        return encode(Success(outcome.call_id, outcome.duration_ms, True, outcome.value))
    assert outcome.error is not None  # noqa: S101
    return encode(
        {
            "call_id": outcome.call_id,
            "duration": outcome.duration_ms,
            "success": False,
            "error": outcome.error.members(),
        }
    )


def tool_json(tool: Tool, input_schema: dict[str, Any]) -> dict[str, Any]:
    """One tool of a list. The input schema is a parameter because OTC wraps it."""
    listed = {
        "id": tool.reference,
        "name": tool.short_name,
        "description": tool.description,
        "version": str(tool.version),
        "input_schema": input_schema,
        "output_schema": tool.output_schema,
    }
    if tool.requirements:
        listed["requirements"] = requirements_json(tool.requirements, with_user_id=True)
    return listed


class Oxp:
    """OXP 1.0 in its flat form as a wire, for servers and for clients."""

    name = "oxp"
    family: Family = "oxp"
    headers: Headers = [JSON, VERSION]

    def encode_list(self, tools: Sequence[Tool]) -> bytes:
        return encode({"items": [tool_json(tool, tool.input_schema) for tool in tools]})

    def encode_outcome(self, outcome: Outcome) -> Reply:
        if outcome.value is not None:  # as `result_bytes` has it, without a call more: this is the hot path
            body = encode(Success(outcome.call_id, outcome.duration_ms, True, outcome.value))
            return Reply(200, body, self.headers)
        return Reply(200, result_bytes(outcome), self.headers)

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        if isinstance(error, ToolError):
            return self.encode_outcome(Outcome(command.call_id or "" if command else "", 0, error=error))
        return Reply(status_of(error), encode(error_json(error)), self.headers + error_headers(error))

    def encode_status(self, status: str) -> Reply:
        return Reply(200 if status == "ok" else 503, encode({"status": status}), self.headers)

    def encode_request(self, command: CallTool | ListTools) -> Request:
        if isinstance(command, ListTools):
            return Request("GET", "/tools", dict(self.headers), query=list_query(command, None))
        return Request("POST", "/tools/call", dict(self.headers), encode(request_json(command)))

    def decode_list(self, reply: Reply) -> list[dict[str, Any]]:
        return tools_from(reply, "items")

    def decode_outcome(self, reply: Reply) -> Outcome:
        return outcome_from(reply, lambda body: body)


class OxpEnveloped(Oxp):
    """OXP 1.0 in its enveloped form: `request` in, `result` out. Lists and errors are as in the flat form."""

    def encode_outcome(self, outcome: Outcome) -> Reply:
        return Reply(200, b'{"$schema":"%b","result":%b}' % (OXP_1_0.encode(), result_bytes(outcome)), self.headers)


FLAT = Oxp()
ENVELOPED = OxpEnveloped()
