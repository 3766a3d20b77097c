"""wires/errors.py"""

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


# -- errors -----------------------------------------------------------------------------------------

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
"""Every error that can end a request before its tool runs, and HTTP's word for it."""


def status_of(error: ToolyardError) -> int:
    """An error of a more special kind is answered like its kind."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def error_json(error: ToolyardError) -> dict[str, Any]:
    """The `ServerErrorResponse` or `ValidationErrorResponse` of an error."""
    made: dict[str, Any] = {"message": error.message}
    if error.developer_message is not None:
        made["developer_message"] = error.developer_message
    if isinstance(error, InvalidInput):
        errors: dict[str, str] = {}
        for problem in error.problems:
            errors.setdefault(problem.path or "input", problem.sentence)
        made["parameter_errors"] = errors
    elif isinstance(error, MissingRequirements):
        made["missing_requirements"] = missing_json(error.missing)
    elif isinstance(error, Busy):
        made["retry_after_ms"] = error.retry_after_ms
    return made


def error_headers(error: ToolyardError) -> Headers:
    """What an error says in headers. (The public client retries on `x-should-retry`.)"""
    if isinstance(error, MethodNotAllowed):
        return [(b"allow", ", ".join(error.allowed).encode())]
    if isinstance(error, NotAuthenticated | Forbidden):
        return [(b"www-authenticate", error.challenge.encode())]
    if isinstance(error, Busy):
        milliseconds = error.retry_after_ms
        return [
            (b"retry-after", str(max(1, -(-milliseconds // 1000))).encode()),
            (b"retry-after-ms", str(milliseconds).encode()),
            (b"x-should-retry", b"true"),
        ]
    return []


def missing_json(missing: Missing) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if missing.authorization:
        made["authorization"] = [
            {"id": challenge.id, "url": challenge.url, "check_url": challenge.check_url}
            for challenge in missing.authorization
        ]
    if missing.secrets:
        made["secrets"] = [{"id": id} for id in missing.secrets]
    if missing.user_id:
        made["user_id"] = True
    if missing.approval:
        made["approval"] = True
    return made
