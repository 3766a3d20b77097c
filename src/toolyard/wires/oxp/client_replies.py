"""What a client makes of a reply of the OXP family: an outcome, or the refusal as a typed error.

The server may be any implementation of these protocols, so nothing about a reply's shape is taken for granted.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ...model.call import Outcome
from ...model.errors import (
    Busy,
    Challenge,
    InternalError,
    InvalidInput,
    Missing,
    MissingRequirements,
    NotAuthenticated,
    PathNotFound,
    Problem,
    Refused,
    RequestError,
    ToolError,
    ToolNotFound,
    ToolyardError,
)
from ...model.json_value import decode
from ..contract import Reply

Body = Mapping[str, Any]
_not_found = re.compile(r"Tool '.*' was not found", re.DOTALL).fullmatch
"""The documents' own words. An unknown tool has no status or code of its own, so they are all there is to go by."""


def tools_from(reply: Reply, member: str) -> list[dict[str, Any]]:
    """The tools of a list reply, under the member that the wire has them in. Raises the server's refusal."""
    body = body_of(reply)
    tools = body.get(member)
    if reply.status != 200 or not isinstance(tools, list):
        raise refusal_from(reply.status, body)
    return tools


def outcome_from(reply: Reply, result_of: Callable[[Body], Body]) -> Outcome:
    """The outcome of a call from its reply. `result_of` finds the flat result in the wire's body. Raises the server's
    refusal."""
    body = body_of(reply)
    if reply.status != 200:
        raise refusal_from(reply.status, {**_retry_after(reply), **body})
    result = result_of(body)
    if not isinstance(result.get("success"), bool):
        raise InternalError(
            "The server's answer is not a tool result",
            developer_message=reply.body[:200].decode("utf-8", "replace"),
        )
    outcome = Outcome(str(result.get("call_id", "")), float(result.get("duration", 0)))
    if result["success"]:  # a tool that returns nothing may have no `value`
        outcome.value = Raw(msgspec.json.encode(result.get("value")))
    else:
        outcome.error = ToolError.from_members(result.get("error") or {})
    return outcome


def _retry_after(reply: Reply) -> Body:
    """The member `retry_after_ms`, from the headers: not every wire has it in the body."""
    after = dict(reply.headers).get(b"retry-after-ms", b"")
    return {"retry_after_ms": int(after)} if after.isdigit() else {}


def refusal_from(status: int, body: Body) -> ToolyardError:
    """The error behind a status and body that are not a result. The lifecycle API's refusals are read here, too."""
    message = str(body.get("message") or f"The server answered with status {status}")
    details = body.get("developer_message")
    # Members are asked before most statuses: OXP answers nearly everything before the call with 400.
    if status == 422:
        errors = body.get("parameter_errors")
        named = errors.items() if isinstance(errors, dict) else ()
        return InvalidInput(tuple(Problem(path, str(sentence)) for path, sentence in named), message)
    if "missing_requirements" in body:
        missing = _missing(body["missing_requirements"])
        return MissingRequirements(message, missing, developer_message=details or message)
    if "retry_after_ms" in body:
        return Busy(message, retry_after_ms=int(body["retry_after_ms"]), developer_message=details)
    if status == 409:
        return Refused(message, str(body.get("reason") or "conflict"))
    if status == 400 and _not_found(message):
        return ToolNotFound(message, developer_message=details)
    kind = {401: NotAuthenticated, 404: PathNotFound}.get(status, InternalError if status >= 500 else RequestError)
    return kind(message, developer_message=details)


def _missing(body: Body) -> Missing:
    return Missing(
        authorization=tuple(
            Challenge(entry["id"], entry["url"], entry.get("check_url", "")) for entry in body.get("authorization", ())
        ),
        secrets=tuple(entry["id"] for entry in body.get("secrets", ())),
        user_id=bool(body.get("user_id")),
        approval=bool(body.get("approval")),
    )


def body_of(reply: Reply) -> Body:
    """The JSON object of a reply; empty for any other body, such as a proxy's page, or one of endless depth."""
    try:
        body = decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {}
