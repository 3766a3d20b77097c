"""The OTC draft: the protocol before 1.0. Where its text and its OpenAPI document disagree, the text wins.

It has neither 422 nor missing requirements: what the other wires say in those is put into the members that it has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ...model.call import CallTool, ListTools, Outcome
from ...model.clock import random_id
from ...model.errors import InvalidInput, MissingRequirements, Problem, ToolError, ToolyardError
from ...model.record import Family
from ...model.tool import Tool
from ..contract import JSON, Headers, Reply, Request
from ..errors import encode, error_headers, status_of
from .client_replies import outcome_from, tools_from
from .messages import OTC_DRAFT, list_query, request_json, requirements_json


class Draft:
    """The OTC draft as a wire, for servers and for clients. Its keys are a family of their own: the documents use one
    `call_id` for examples of both protocols."""

    name = "otc_draft"
    family: Family = "otc_draft"
    headers: Headers = [JSON]

    def encode_list(self, tools: Sequence[Tool]) -> bytes:
        return encode({"$schema": OTC_DRAFT, "tools": [_tool_json(tool) for tool in tools]})

    def encode_outcome(self, outcome: Outcome) -> Reply:
        body: dict[str, Any] = {
            "$schema": OTC_DRAFT,
            "call_id": outcome.call_id,
            "duration": outcome.duration_ms,
            "success": outcome.error is None,
        }
        if outcome.error is not None:
            body["output"] = {"error": outcome.error.members()}
        elif outcome.value is not None and bytes(outcome.value) != b"null":  # the mode "null" is no output at all
            body["output"] = {"value": outcome.value}
        return Reply(200, encode(body), self.headers)

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        if isinstance(error, InvalidInput | ToolError):
            return Reply(200, encode(_failed_before(error, command)), self.headers)
        body: dict[str, Any] = {"$schema": OTC_DRAFT, "message": error.message + _links(error)}
        if error.developer_message is not None:
            body["developer_message"] = error.developer_message
        return Reply(status_of(error), encode(body), self.headers + error_headers(error))

    def encode_status(self, status: str) -> Reply:
        return Reply(200 if status == "ok" else 503, encode({"$schema": OTC_DRAFT, "status": status}), self.headers)

    def encode_request(self, command: CallTool | ListTools) -> Request:
        if isinstance(command, ListTools):
            return Request("GET", "/tools", dict(self.headers), query=list_query(command, OTC_DRAFT))
        body = {"$schema": OTC_DRAFT, "request": request_json(command)}
        return Request("POST", "/call", dict(self.headers), encode(body))

    def decode_list(self, reply: Reply) -> list[dict[str, Any]]:
        return tools_from(reply, "tools")

    def decode_outcome(self, reply: Reply) -> Outcome:
        return outcome_from(reply, _flat_result)


def _links(error: ToolyardError) -> str:
    """The addresses of challenges, for the end of the message. The draft has no member for them, so they are in the
    text that people and models read, after the codes that the pages ask for."""
    challenges = error.missing.authorization if isinstance(error, MissingRequirements) else ()
    return "".join(f"; open {challenge.url}" for challenge in challenges)


def _flat_result(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, **(body.get("output") or {})}


def _failed_before(error: InvalidInput | ToolError, command: CallTool | None) -> dict[str, Any]:
    """The body for a call that failed before its tool ran. The draft has no 422: input that does not fit is a failed
    call, too."""
    shown = error.members() if isinstance(error, ToolError) else _invalid_input_json(error)
    call_id = command.call_id if command and command.call_id else random_id()  # the draft requires one in each result
    return {"$schema": OTC_DRAFT, "call_id": call_id, "success": False, "output": {"error": shown}}


def _invalid_input_json(error: InvalidInput) -> dict[str, Any]:
    return {
        "message": "Invalid input parameter",
        "developer_message": " ".join(map(_reason, error.problems)),
        "can_retry": False,
    }


def _reason(problem: Problem) -> str:
    if problem.missing:
        return f"Parameter '{problem.path}' is missing or formatted incorrectly."
    return f"Parameter '{problem.path}' is formatted incorrectly: {problem.sentence}."


def _tool_json(tool: Tool) -> dict[str, Any]:
    listed: dict[str, Any] = {
        "id": tool.reference,
        "name": tool.name,
        "description": tool.description,
        "toolkit": {
            "name": tool.toolkit.name,
            "description": tool.toolkit.description,
            "version": str(tool.toolkit.version),
        },
        "input": {"parameters": tool.input_schema},
        "output": _output_json(tool.output_schema),
    }
    if tool.hidden:
        listed["input"]["non_inferrable_parameters"] = list(tool.hidden)
    if requirements := requirements_json(tool.requirements, with_user_id=False):
        listed["requirements"] = requirements
    return listed


def _output_json(schema: dict[str, Any] | None) -> dict[str, Any]:
    """The member `output` of a listed tool: which kinds of output there may be, and the schema of its value."""
    if schema is None:
        return {"available_modes": ["null", "error"]}
    modes = ["value", "null", "error"] if _may_be_null(schema) else ["value", "error"]
    return {"available_modes": modes, "value": {"parameters": schema}}


def _may_be_null(schema: Any) -> bool:
    """Whether a schema accepts null, as far as schemas that are made from types are concerned."""
    if not isinstance(schema, dict) or not schema.keys() - {"title", "description"}:
        return True
    alternatives = schema.get("anyOf") or schema.get("oneOf") or ()
    if alternatives:
        return any(map(_may_be_null, alternatives))
    types = schema.get("type", ())
    return "null" in ([types] if isinstance(types, str) else types)


DRAFT = Draft()
