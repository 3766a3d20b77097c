"""A connection to an upstream, whichever way it is reached and whichever era it is of.

It carries requests and their answers, and what the upstream says in between, and retries nothing: whether a call may be
made again is decided by whoever made it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Raw, Struct

from ..model.upstream import Upstream
from ..text.scrubber import Scrubber
from ..wires.mcp.client_requests import INFO
from ..wires.mcp.params import CAPABILITIES, CLIENT_INFO, PREFIX, TASKS, VERSION
from ..wires.mcp.revisions import HANDSHAKE, R_2025_03_26, R_2025_11_25, Revision
from .faults import Misbehaved, UpstreamRefusal
from .pending_request import DEAF, RequestListener

ALL_ASKS = frozenset({"form", "url", "sampling", "roots"})
"""What lists are asked for with: some servers list a tool only for clients that can be asked what it asks."""
SHARED_ASKS = frozenset({"form", "url", "sampling"})
"""What callers who share a connection can be asked through it. Not their folders: servers keep those, and take them for
leave to open what is in them, for everybody."""
LOG, LOG_LEVEL = PREFIX + "logLevel", "info"
"""What upstreams say while they run a call is passed on from here on; each client then hears what it asked for."""
MOST_BYTES = 32 * 2**20
LISTEN = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
"""What a server of the newer era is asked to tell of."""
LISTENED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
OLDEST = "2024-11-05"
"""Servers that speak this revision speak, as far as tools go, the one after it."""


class UpstreamInfo(Struct, frozen=True):
    """What an upstream says of itself: its name and version, what it can do, and how its tools are to be used."""

    name: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = {}
    instructions: str = ""


class UpstreamAccess(Struct, frozen=True):
    """Everything that connecting to an upstream takes: its settings, with the secrets that they name, and bounds."""

    upstream: Upstream
    headers: Mapping[bytes, bytes] = {}
    env: Mapping[str, str] = {}
    scrubber: Scrubber | None = None
    most_bytes: int = MOST_BYTES
    """The largest answer."""


class UpstreamNotice(Struct, frozen=True):
    """What an upstream says of its own accord: that one of its lists changed, or what a resource holds."""

    method: str
    uri: str = ""
    """Of the resource that changed."""


def notice_of(method: str, params: Mapping[str, Any]) -> UpstreamNotice:
    uri = params.get("uri") if method == UPDATED else None
    return UpstreamNotice(method, uri if isinstance(uri, str) else "")


class UpstreamConnection(Protocol):
    """A connection that was opened: the era is known, and so is who answers."""

    revision: Revision
    info: UpstreamInfo

    @property
    def is_open(self) -> bool: ...

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        listener: RequestListener = DEAF,
        headers: Mapping[bytes, bytes] = {},
        asks: frozenset[str] = frozenset(),
    ) -> Raw:
        """The result. `headers` are further ones of this request, where there are any; `asks` is what the listener can
        be asked, for eras in which each request says so. Raises UpstreamFault, and what the listener raised. Cancelled,
        it tells the upstream that nobody waits any more."""
        ...

    async def changes(self) -> UpstreamNotice:
        """The next notification of the upstream's that is about no request, such as `…/list_changed`. Raises
        UpstreamFault where the connection is over, or none will ever come."""
        ...

    async def follow(self, uris: frozenset[str]) -> None:
        """From now on `changes` also tells when one of these resources changes, and of no other. Raises
        UpstreamFault."""
        ...

    async def close(self) -> None: ...


def capabilities_of(asks: frozenset[str]) -> dict[str, Any]:
    """What a client declares that can answer these kinds of questions."""
    declared: dict[str, Any] = {}
    modes: dict[str, Any] = {mode: {} for mode in ("form", "url") if mode in asks}
    if modes:
        declared["elicitation"] = modes
    return declared | {kind: {} for kind in ("sampling", "roots") if kind in asks}


def modern_meta(revision: Revision, asks: frozenset[str]) -> dict[str, Any]:
    """The members of `_meta` with which every request of the newer era says who asks."""
    declared = capabilities_of(asks) | {"extensions": {TASKS: {}}}
    return {VERSION: revision.name, CLIENT_INFO: INFO, CAPABILITIES: declared, LOG: LOG_LEVEL}


def initialize_params(asks: frozenset[str], version: str = R_2025_11_25.name) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": capabilities_of(asks), "clientInfo": INFO}


def agreed(result: Mapping[str, Any]) -> tuple[Revision, UpstreamInfo]:
    """The revision and the server of a handshake's result. Raises Misbehaved."""
    named = result.get("protocolVersion")
    revision = R_2025_03_26 if named == OLDEST else HANDSHAKE.get(named) if isinstance(named, str) else None
    if revision is None:
        raise Misbehaved(f"speaks MCP {str(named)[:40]!r}, which this server does not")
    return revision, info_of(result)


def info_of(result: Mapping[str, Any], server: Any = None) -> UpstreamInfo:
    """From the result of `initialize` or of `server/discover`, whatever is in it."""
    server = server if isinstance(server, dict) else result.get("serverInfo")
    server = server if isinstance(server, dict) else {}
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return UpstreamInfo(
        str(server.get("name", ""))[:200],
        str(server.get("version", ""))[:100],
        capabilities if isinstance(capabilities, dict) else {},
        instructions[:4000] if isinstance(instructions, str) else "",
    )


async def set_log_level(connection: UpstreamConnection) -> None:
    """Asks a server of the older era for what it says while it runs a call, if it has any of that."""
    if "logging" in connection.info.capabilities:
        with suppress(UpstreamRefusal):
            await connection.request("logging/setLevel", {"level": LOG_LEVEL})


def listen_params(uris: frozenset[str]) -> dict[str, Any]:
    """What a server of the newer era is to tell of."""
    return {"notifications": {**LISTEN, "resourceSubscriptions": sorted(uris)} if uris else LISTEN}


async def subscribe(connection: UpstreamConnection, before: frozenset[str], uris: frozenset[str]) -> frozenset[str]:
    """Has a server of the older era tell of these resources, and no longer of others that it told of before. Those that
    it tells of now: one that it refuses takes none of the others with it. Raises UpstreamFault."""
    resources = connection.info.capabilities.get("resources")
    if not isinstance(resources, dict) or resources.get("subscribe") is not True:
        return frozenset()
    told = set(before)
    for uri in sorted(before ^ uris):
        with suppress(UpstreamRefusal):
            await connection.request(f"resources/{'subscribe' if uri in uris else 'unsubscribe'}", {"uri": uri})
            told ^= {uri}
    return frozenset(told)
