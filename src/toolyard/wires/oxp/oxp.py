"""OXP 1.0: flat, as its pages show it, or with `request` and `result`, as its OpenAPI document has it."""

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


class Success(Struct):
    """A call that succeeded. Built for every call, so it is a struct and not a dict."""

    call_id: str
    duration: float
    success: bool
    value: Raw


def result_bytes(outcome: Outcome) -> bytes:
    """The members of a call's result, flat."""
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
    """One tool of a list."""
    made = {
        "id": tool.reference,
        "name": tool.short_name,
        "description": tool.description,
        "version": str(tool.version),
        "input_schema": input_schema,
        "output_schema": tool.output_schema,
    }
    if tool.requirements:
        made["requirements"] = requirements_json(tool.requirements, with_user_id=True)
    return made


class Oxp:
    """The flat form."""

    name = "oxp"
    family: Family = "oxp"
    headers: Headers = [JSON, VERSION]

    def encode_list(self, tools: Sequence[Tool]) -> bytes:
        return encode({"items": [tool_json(tool, tool.input_schema) for tool in tools]})

    def encode_outcome(self, outcome: Outcome) -> Reply:
        if outcome.value is not None:
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
    """The form with `request` and `result`."""

    def encode_outcome(self, outcome: Outcome) -> Reply:
        return Reply(200, b'{"$schema":"%b","result":%b}' % (OXP_1_0.encode(), result_bytes(outcome)), self.headers)


FLAT = Oxp()
ENVELOPED = OxpEnveloped()
