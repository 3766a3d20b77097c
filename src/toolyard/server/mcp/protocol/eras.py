"""Which era a message is of, and what each era's clients say of themselves.

The older era (2025-03-26 to 2025-11-25) begins with a handshake: what was agreed on is kept in a session. In the newer
one (2026-07-28) there is none, and each request says in its `_meta` which revision it speaks and what its client can.
"""

from collections.abc import Mapping

from msgspec import UNSET

from ....model.caller import Caller
from ....wires.mcp.envelope import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, RpcError
from ....wires.mcp.params import (
    CAPABILITIES,
    TASKS,
    VERSION,
    CallParams,
    Message,
    Meta,
    OfResource,
    Params,
    SetLevel,
    can,
    decode_params,
)
from ....wires.mcp.revisions import R_2026_07_28, REVISIONS, Revision
from .peer import Peer
from .sessions import SessionState, refuse_many

SETTINGS = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""What a client of the older era sets for its session."""


def params_of(message: Message) -> Params:
    """Enough of a request's parameters to see where it belongs. Raises RpcError."""
    return decode_params(message, CallParams if message.method == "tools/call" else Params)


def modern_peer(
    message: Message, params: Params, caller: Caller, modern: Mapping[str, Revision], header: str = ""
) -> Peer | None:
    """None for a message of the older era. Raises RpcError for one of the newer that is not as it must be. `modern` are
    the newer revisions as this server speaks them; `header` is the version that the transport names."""
    meta = Meta() if params.meta is UNSET else params.meta
    if not header and meta.version is UNSET:
        return None
    if message.method is UNSET:
        raise RpcError(INVALID_REQUEST, "Invalid request: this revision has no responses from clients")
    if message.id is UNSET:
        return Peer(modern[R_2026_07_28.name], caller, {})
    asked = header if meta.version is UNSET else meta.version
    if asked not in modern:
        raise RpcError(
            UNSUPPORTED_VERSION,
            f"Unsupported protocol version: {asked[:80]}",
            {"supported": list(REVISIONS), "requested": asked},
        )
    if meta.version is UNSET or meta.capabilities is UNSET:
        missing = VERSION if meta.version is UNSET else CAPABILITIES
        raise RpcError(INVALID_PARAMS, f"Invalid params: _meta has no {missing}")
    log_level = None if meta.log_level is UNSET else meta.log_level
    has_tasks = bool(meta.capabilities) and can(meta.capabilities, "extensions", TASKS)
    return Peer(modern[asked], caller, meta.capabilities, log_level, None, has_tasks)


def change(message: Message, state: SessionState, most: int) -> None:
    """What a client sets for its session; it may follow `most` resources. Raises RpcError."""
    if message.method == "logging/setLevel":
        state.log_level = decode_params(message, SetLevel).level
        return
    uri = decode_params(message, OfResource).uri
    kept = [each for each in state.subscriptions if each != uri]
    followed = [*kept, uri] if message.method == "resources/subscribe" else kept
    refuse_many(followed, most)
    state.subscriptions[:] = followed  # in place: a stream that is open looks at this very list
