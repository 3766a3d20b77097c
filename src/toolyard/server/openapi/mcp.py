"""What the document says of MCP: one address, at which messages of JSON-RPC 2.0 are sent. What the messages say is
MCP's own to document.

The revision of 2025-03-26 has lists of them, and answers each message of a list for itself.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from .docs import ApiParameter, Doc, Docs, Responses

SESSION = ApiParameter("Mcp-Session-Id", "header", "The session, up to the revision of 2025-11-25.")
VERSION = ApiParameter("MCP-Protocol-Version", "header", "The revision that the client speaks, such as 2026-07-28.")


class RpcMessage(Struct):
    """A message of JSON-RPC 2.0: a request, a notification, or a client's response."""

    jsonrpc: Literal["2.0"]
    method: str | UnsetType = UNSET
    id: int | str | UnsetType | None = UNSET
    params: dict[str, Any] | UnsetType = UNSET


class RpcError(Struct):
    """Why there is no result: JSON-RPC's code, a message, and perhaps more."""

    code: int
    message: str
    data: Any = UNSET


class RpcReply(Struct):
    """The answer to a message: a result, or an error."""

    jsonrpc: Literal["2.0"]
    id: int | str | None = None
    result: dict[str, Any] | UnsetType = UNSET
    error: RpcError | UnsetType = UNSET


REFUSED: Responses = {
    400: ("Not a message that can be read, or one that is not as its revision has it", (RpcReply,)),
    401: ("Credentials are missing or not valid", (RpcReply,)),
    403: ("The credentials are not for this, or a page sent it that may not", (RpcReply,)),
    404: ("There is no such method, or no such session any more", (RpcReply,)),
}
LARGE: Responses = {
    413: ("The body is too large", (RpcReply,)),
    415: ("The body is not JSON", (RpcReply,)),
}


def docs() -> Docs:
    said: Responses = {
        200: ("The answer; or a stream of events, the last of which is the answer", (RpcReply, list[RpcReply])),
        202: ("Taken; there is no answer", ()),
    }
    events: Responses = {200: ("A stream of events, which has no end of its own", ())}
    ended: Responses = {204: ("The session is over", ())}
    none: Responses = {405: ("There is no session; the newer revision has none", (RpcReply,))}
    headers = (VERSION, SESSION)
    return {
        ("POST", "/mcp"): Doc(
            "Send a message of MCP",
            said | REFUSED | LARGE,
            tag="mcp",
            request=(RpcMessage, list[Any]),
            parameters=headers,
        ),
        ("GET", "/mcp"): Doc(
            "Hear what the server says by itself", events | none | REFUSED, tag="mcp", parameters=headers
        ),
        ("DELETE", "/mcp"): Doc("End a session", ended | none | REFUSED, tag="mcp", parameters=headers),
    }
