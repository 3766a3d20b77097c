"""What MCP answers where there is no result, over HTTP."""

from ....model.call import CallTool
from ....model.errors import (
    BodyTooLarge,
    Busy,
    Forbidden,
    ForeignPage,
    LimitReached,
    MethodNotAllowed,
    Misdirected,
    NotAuthenticated,
    PathNotFound,
    RequestError,
    ToolyardError,
    UnsupportedMediaType,
)
from ....wires.contract import Reply
from ....wires.errors import error_headers
from ....wires.mcp.envelope import HEADERS, INTERNAL_ERROR, INVALID_REQUEST, RpcError, encode_error

ACCEPTED = Reply(202, b"", [])
_STATUSES: dict[type[ToolyardError], int] = {
    NotAuthenticated: 401,
    Forbidden: 403,
    ForeignPage: 403,
    Misdirected: 421,
    PathNotFound: 404,
    MethodNotAllowed: 405,
    BodyTooLarge: 413,
    UnsupportedMediaType: 415,
    RequestError: 400,
    LimitReached: 429,
    Busy: 503,
}
"""The first that fits."""


class McpAnswers:
    """MCP's words for what the shell refuses before a message was read: the `ErrorEncoder` of its routes."""

    def encode_error(self, error: ToolyardError, command: CallTool | None = None) -> Reply:
        return refused(error, None)


MCP = McpAnswers()


def refused(error: ToolyardError, id: int | str | None) -> Reply:
    rpc = error if isinstance(error, RpcError) else as_rpc(error)
    if isinstance(error, NotAuthenticated | Forbidden):
        return Reply(rpc.status, encode_error(id, rpc), [*HEADERS, (b"www-authenticate", error.challenge.encode())])
    if isinstance(error, Busy | LimitReached | MethodNotAllowed):
        return Reply(rpc.status, encode_error(id, rpc), [*HEADERS, *error_headers(error)])
    if rpc.status == 503:
        return Reply(rpc.status, encode_error(id, rpc), [*HEADERS, (b"retry-after", b"1")])
    return Reply(rpc.status, encode_error(id, rpc), HEADERS)


def as_rpc(error: ToolyardError) -> RpcError:
    """Every error of the tree that is not a call's."""
    status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)
    code = INVALID_REQUEST if status < 500 else INTERNAL_ERROR
    detail = f": {error.developer_message}" if error.developer_message and status < 500 else ""
    return RpcError(code, f"{error.message}{detail}", status=status)
