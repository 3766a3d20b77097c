"""The answers to errors that every HTTP wire starts from: the status, the JSON members and the headers of each.

The OXP family uses them as they are. The lifecycle API and MCP have statuses and shapes of their own for some errors,
and fall back on these.
"""

from typing import Any

import msgspec

from ..model.errors import (
    BodyTooLarge,
    Busy,
    Forbidden,
    ForeignPage,
    InternalError,
    InvalidInput,
    KeyConflict,
    MalformedRequest,
    MethodNotAllowed,
    Misdirected,
    Missing,
    MissingRequirements,
    NotAuthenticated,
    PathNotFound,
    Refused,
    ToolNotFound,
    ToolyardError,
    Unavailable,
    UnsupportedMediaType,
    UnsupportedProtocol,
)
from .contract import Headers

encode = msgspec.json.Encoder().encode

STATUS: dict[type[ToolyardError], int] = {
    MalformedRequest: 400,
    UnsupportedProtocol: 400,
    NotAuthenticated: 401,
    Forbidden: 403,
    Misdirected: 421,
    ForeignPage: 403,
    KeyConflict: 400,
    Refused: 400,
    ToolNotFound: 400,
    InvalidInput: 422,
    MissingRequirements: 400,
    PathNotFound: 404,
    MethodNotAllowed: 405,
    BodyTooLarge: 413,
    UnsupportedMediaType: 415,
    Busy: 400,
    Unavailable: 400,
    InternalError: 500,
}
"""The HTTP status for every error that can end a request before its tool runs. OXP has 400 for nearly all of them, also
for busy servers and conflicts: what goes wrong before the call, other than input, is its `ServerErrorResponse`."""


def status_of(error: ToolyardError) -> int:
    """The status of an error: its own class's, or that of the nearest class above it."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def error_json(error: ToolyardError) -> dict[str, Any]:
    """The `ServerErrorResponse` or `ValidationErrorResponse` of an error."""
    body: dict[str, Any] = {"message": error.message}
    if error.developer_message is not None:
        body["developer_message"] = error.developer_message
    if isinstance(error, InvalidInput):
        errors: dict[str, str] = {}
        for problem in error.problems:
            errors.setdefault(problem.path or "input", problem.sentence)  # one sentence each: the first found
        body["parameter_errors"] = errors
    elif isinstance(error, MissingRequirements):
        body["missing_requirements"] = missing_json(error.missing)
    elif isinstance(error, Busy):
        body["retry_after_ms"] = error.retry_after_ms
    return body


def error_headers(error: ToolyardError) -> Headers:
    """The headers that an error adds to its reply."""
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allowed).encode())]
    if isinstance(error, NotAuthenticated | Forbidden):
        return [(b"www-authenticate", error.challenge.encode())]
    if isinstance(error, Busy):
        milliseconds = error.retry_after_ms
        # Retry-After is in whole seconds, rounded up. The public OXP client retries only on x-should-retry.
        return [
            (b"retry-after", str(max(1, -(-milliseconds // 1000))).encode()),
            (b"retry-after-ms", str(milliseconds).encode()),
            (b"x-should-retry", b"true"),
        ]
    return []


def missing_json(missing: Missing) -> dict[str, Any]:
    """The member `missing_requirements`. `secrets` and `approval` are toolyard's additions to the document's."""
    members: dict[str, Any] = {}
    if missing.authorization:
        members["authorization"] = [
            {"id": challenge.id, "url": challenge.url, "check_url": challenge.check_url}
            for challenge in missing.authorization
        ]
    if missing.secrets:
        members["secrets"] = [{"id": id} for id in missing.secrets]
    if missing.user_id:
        members["user_id"] = True
    if missing.approval:
        members["approval"] = True
    return members
