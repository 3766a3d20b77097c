"""One upstream as this server deals with it: connected when it is needed, called, listed, and given up on for a while
when it cannot be reached.

All callers share its connection, since they share its credentials. In the older era a handshake says once what a client
can be asked, so over HTTP there is a session for each set of such abilities that callers have.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..model.errors import OutcomeUnknown, ToolError
from ..model.json_value import decode
from ..model.run import RichResult, Run
from ..model.upstream import Upstream
from ..text.log_scrubbing import begin
from ..text.scrubber import Scrubber
from ..wires.mcp.assets import ASSET_LISTS
from ..wires.mcp.client_results import Listed
from ..wires.mcp.envelope import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    RpcError,
)
from ..wires.mcp.headers import mirrored_of
from ..wires.mcp.revisions import Revision
from .asset_request import AssetClient, AssetRequest
from .call import LARGE, Principal, UpstreamCall, asks_of, principal_of
from .connection import ALL_ASKS, UpstreamAccess, UpstreamConnection, UpstreamNotice
from .definitions import LARGEST_LIST, MOST_TOOLS, UpstreamCode, UpstreamListing
from .faults import Lost, Misbehaved, NotSent, UpstreamFault, UpstreamRefusal
from .health import UpstreamHealth
from .http import OlderHttp
from .http import opened as http_opened
from .pending_request import object_of
from .stdio import StdioConnection

MOST_PAGES = 1000
SMALL = 2**16
"""Bytes: of a larger result, secrets are taken out in a thread."""
MOST_WAITING = 1000
"""Calls that wait for one of an upstream's concurrent ones to end."""
ASSETS_AT_ONCE, MOST_ASSETS_WAITING = 8, 200
"""Requests for prompts and resources of an upstream that are under way, and that wait for one of those to end. Each may
be answered with as many bytes as any answer may have."""
OWN_ERRORS = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_VERSION})
"""Errors that are between this server and the upstream: a client can do nothing about them."""
LARGEST_DATA = 8 * 2**10
"""Bytes of what an upstream says beside an error."""
NOT_RUN = (429, 503)
"""Statuses that say that nothing was done."""
MOST_SESSIONS = 64
"""With one upstream. The oldest is closed for the next one."""
SessionKey = tuple[frozenset[str], Principal | None]
SHARED: SessionKey = (frozenset(), None)
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
GetReach = Callable[[Upstream], Awaitable[UpstreamAccess]]
"""Looks up the secrets that an upstream's settings name. Raises NotSent for one that is not there."""


class UpstreamLink:
    """The way to one upstream."""

    def __init__(self, upstream: Upstream, reach: GetReach, health: UpstreamHealth | None = None) -> None:
        self.upstream, self._reach = upstream, reach
        self.health = UpstreamHealth() if health is None else health
        self.revision: Revision | None = None
        """What it speaks, or spoke when it was last heard."""
        self._connections: dict[SessionKey, UpstreamConnection] = {}
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(upstream.concurrency)
        self._waiting = 0
        self._scrubber: Scrubber | None = None
        """Of what the upstream is given to be reached."""
        self._asset_slots = asyncio.Semaphore(ASSETS_AT_ONCE)
        self._assets_waiting = 0
        self._followed: frozenset[str] = frozenset()
        self._heard: UpstreamConnection | None = None
        """The connection that was told what is followed."""

    # -- calls -------------------------------------------------------------------------------------

    async def call(
        self, run: Run, code: UpstreamCode, arguments: dict[str, Any], meta: Mapping[str, Any]
    ) -> RichResult:
        """Raises ToolError, whatever happened: with what to do about it."""
        wait_s = self.health.refuses_s()
        if wait_s is not None:
            raise self._unreachable("cannot be reached", wait_s)
        if self._slots.locked() and self._waiting >= MOST_WAITING:
            self.health.gives_up()
            raise self._unreachable("has too many calls waiting", 1.0)
        self._waiting += 1
        try:
            await self._slots.acquire()
        except BaseException:
            self.health.gives_up()
            raise
        finally:
            self._waiting -= 1
        started, is_error = time.monotonic(), True
        try:
            result = await self._made(run, code, arguments, meta)
            is_error = False
            return result
        finally:
            self._slots.release()
            self.health.gives_up()  # where nothing was found out about it: the caller left
            self.health.counted((time.monotonic() - started) * 1000, is_error=is_error)

    async def _made(
        self, run: Run, code: UpstreamCode, arguments: dict[str, Any], meta: Mapping[str, Any]
    ) -> RichResult:
        listed = code.listed
        for is_last in (False, True):
            connection: UpstreamConnection | None = None
            try:
                try:
                    connection = await self._connection(asks_of(run), principal_of(run))
                finally:
                    self._hide_from(run)
                result = await UpstreamCall(run, connection, listed, meta).result(arguments)
                self.health.works()
                return result if self._scrubber is None else await _readable(result)
            except UpstreamRefusal as refused:
                self.health.works()
                if is_last or connection is None or not await self._can_be_mended(refused, connection):
                    raise self._refused(refused) from None
                listed = await self._listed_now(listed) if refused.code == HEADER_MISMATCH else listed
            except NotSent as fault:
                self.health.fails(self.said(fault))
                raise self._unreachable("cannot be reached", max(self.health.pause_s, 0.1)) from None
            except Lost as fault:
                self.health.fails(self.said(fault))
                raise self._lost(run) from None
            except Misbehaved as fault:
                self.health.works()
                raise ToolError(f"{self.upstream.name} {fault}", can_retry=False) from None
        raise AssertionError("the last try returns or raises")

    def _hide_from(self, run: Run) -> None:
        """Keeps what the upstream is given to be reached out of what it says in a call: results and errors are
        recorded, and callers see them."""
        if self._scrubber is not None and run.scrubber is None:
            run.scrubber = self._scrubber
            begin(run.scrubber)

    def said(self, fault: BaseException) -> str:
        """What a fault says to whoever runs the server, without secrets."""
        text = fault.trouble if isinstance(fault, UpstreamFault) else str(fault)
        return text if self._scrubber is None else self._scrubber.text(text)

    async def _can_be_mended(self, refused: UpstreamRefusal, connection: UpstreamConnection) -> bool:
        """Whether the call was refused for something that can be agreed on anew, so that nothing has run: the session
        is forgotten, another revision is spoken now, or headers have to be others."""
        is_forgotten = isinstance(connection, OlderHttp) and refused.details.status == 404
        if is_forgotten or refused.code == UNSUPPORTED_VERSION:
            await self._discard(connection)
            return True
        return refused.code == HEADER_MISMATCH

    async def _listed_now(self, listed: Listed) -> Listed:
        """A tool with the headers that it wants by now."""
        listing = await self.listing()
        schema = next((each.get("inputSchema") for each in listing.tools if each.get("name") == listed.name), None)
        try:
            return replace(listed, mirrored=mirrored_of(schema)) if isinstance(schema, dict) else listed
        except ValueError:
            return listed

    # -- what callers are told ---------------------------------------------------------------------

    def _unreachable(self, why: str, wait_s: float) -> ToolError:
        """Nothing has run. Where the upstream is, and what exactly is wrong with it, is for whoever runs the server."""
        sentence = f"{self.upstream.name} {why}; try again in {max(wait_s, 1):.0f} s"
        error = ToolError(sentence, can_retry=True, retry_after_ms=int(wait_s * 1000) or 1)
        error.effects = "none"
        return error

    def _lost(self, run: Run) -> ToolError:
        sentence = f"{self.upstream.name} was lost before it answered"
        if run.tool.on_lost == "rerun":
            return ToolError(f"{sentence}; the call may be made again", can_retry=True, retry_after_ms=1000)
        return OutcomeUnknown(f"{sentence}; nobody knows whether the call was carried out", can_retry=False)

    def _refused(self, refused: UpstreamRefusal) -> ToolError:
        name, status, code = self.upstream.name, refused.details.status, refused.code
        details = f"MCP error {code}" if code is not None else f"HTTP status {status}"
        if status in (401, 403):
            return ToolError(
                f"{name} refuses the credentials that this server has for it",
                developer_message=f"{details}: {refused}",
                can_retry=False,
            )
        if status in NOT_RUN:
            wait_ms = refused.details.retry_after_ms or 1000
            return ToolError(f"{name} is busy: {refused}", can_retry=True, retry_after_ms=wait_ms)
        if status >= 500 and code is None:  # it may have come from something in between, after the call was carried out
            return OutcomeUnknown(f"{name} {refused}; nobody knows whether the call was carried out", can_retry=False)
        return ToolError(f"{name}: {refused}", developer_message=details, can_retry=False)

    # -- prompts, resources, completions -----------------------------------------------------------

    async def request(self, method: str, params: Mapping[str, Any], client: AssetClient) -> Raw:
        """The result of a request that is no call. Raises RpcError, whatever happened: with what to do about it."""
        wait_s = self.health.refuses_s()
        if wait_s is not None:
            raise as_rpc(self._unreachable("cannot be reached", wait_s))
        silent_s = self.upstream.timeout_s
        self._assets_waiting += 1
        try:
            if self._assets_waiting > ASSETS_AT_ONCE + MOST_ASSETS_WAITING:
                raise as_rpc(self._unreachable("has too many requests waiting", 1.0))
            async with asyncio.timeout(silent_s) as clock, self._asset_slots:
                return await self._requested(AssetRequest(client, clock, silent_s), method, params, client)
        except TimeoutError:
            raise as_rpc(ToolError(f"{self.upstream.name} did not answer in {silent_s:g} s")) from None
        finally:
            self._assets_waiting -= 1
            self.health.gives_up()

    async def _requested(
        self, request: AssetRequest, method: str, params: Mapping[str, Any], client: AssetClient
    ) -> Raw:
        for is_last in (False, True):
            connection: UpstreamConnection | None = None
            try:
                asks = client.asks(is_modern=self.revision is None or self.revision.is_modern)
                connection = await self._connection(asks, client.principal)
                result = await request.result(connection, method, params)
                self.health.works()
                return result if self._scrubber is None else await _scrubbed(self._scrubber, result)
            except UpstreamRefusal as refused:
                self.health.works()
                if is_last or connection is None or not await self._can_be_mended(refused, connection):
                    raise self._not_given(refused) from None
            except NotSent as fault:
                self.health.fails(self.said(fault))
                raise as_rpc(self._unreachable("cannot be reached", max(self.health.pause_s, 0.1))) from None
            except Lost as fault:
                self.health.fails(self.said(fault))
                raise as_rpc(self._unreachable("was lost before it answered", max(self.health.pause_s, 0.1))) from None
            except Misbehaved as fault:
                self.health.works()
                raise as_rpc(ToolError(f"{self.upstream.name} {self.said(fault)}", can_retry=False)) from None
        raise AssertionError("the last try returns or raises")

    def _not_given(self, refused: UpstreamRefusal) -> RpcError:
        """What the upstream says is wrong with a request is for the client to know."""
        code, data = refused.code, refused.details.data
        if refused.details.status in (401, 403, *NOT_RUN):
            return as_rpc(self._refused(refused))
        if code is None or code in OWN_ERRORS:
            return as_rpc(ToolError(f"{self.upstream.name} {self.said(refused)}"))
        shown = data if data is not None and len(_encode(data)) <= LARGEST_DATA else None
        shown = shown if self._scrubber is None else self._scrubber.value(shown)
        return RpcError(code, f"{self.upstream.name}: {self.said(refused)}", shown, status=200)

    # -- lists -------------------------------------------------------------------------------------

    async def listing(self) -> UpstreamListing:
        """All its tools. Raises UpstreamFault."""

        async def tools(connection: UpstreamConnection) -> UpstreamListing:
            has_tools = "tools" in connection.info.capabilities
            found = await pages(connection, "tools/list", "tools") if has_tools else []
            return UpstreamListing(connection.revision.name, connection.info, found)

        return await self._listed(tools)

    async def asset_list(self, method: str) -> list[dict[str, Any]]:
        """All that it lists by a method of `ASSET_LISTS`. Raises UpstreamFault, and TimeoutError."""
        listed = ASSET_LISTS[method]

        async def entries(connection: UpstreamConnection) -> list[dict[str, Any]]:
            if listed.kind not in connection.info.capabilities:
                return []
            try:
                return await pages(connection, method, listed.member)
            except UpstreamRefusal as refused:
                if refused.code != METHOD_NOT_FOUND:  # many servers have resources, and no templates
                    raise
                return []

        return await self._listed(entries)

    async def _listed(self, listing: Callable[[UpstreamConnection], Awaitable[T]]) -> T:
        """Raises UpstreamFault, and TimeoutError."""
        for is_last in (False, True):
            connection = await self._connection(ALL_ASKS)
            try:
                async with asyncio.timeout(self.upstream.timeout_s):
                    return await listing(connection)
            except UpstreamRefusal as refused:
                if is_last or not await self._can_be_mended(refused, connection):
                    raise
        raise AssertionError("the last try returns or raises")

    # -- what it tells of its own accord -------------------------------------------------------------

    async def changes(self) -> UpstreamNotice:
        """The next notification about its lists, or about a resource that is followed. Raises UpstreamFault."""
        connection = await self._connection(ALL_ASKS)
        if connection is not self._heard:
            self._heard = connection
            await self._tell_followed(connection)
        try:
            return await connection.changes()
        except UpstreamRefusal as refused:
            if refused.details.status == 404 and await self._is_forgotten(connection):
                await self._discard(connection)
                raise Lost("has forgotten the session") from None
            raise

    async def follow(self, uris: frozenset[str]) -> None:
        """Has it tell when one of these resources changes, and of no other. Raises UpstreamFault, and TimeoutError."""
        self._followed = uris
        if self._heard is not None and self._heard.is_open:
            await self._tell_followed(self._heard)

    async def _tell_followed(self, connection: UpstreamConnection) -> None:
        async with asyncio.timeout(self.upstream.timeout_s):
            await connection.follow(self._followed)

    async def _is_forgotten(self, connection: UpstreamConnection) -> bool:
        """Whether a server of the older era that has no stream of changes has no session, either."""
        if not isinstance(connection, OlderHttp):
            return False
        try:
            async with asyncio.timeout(self.upstream.timeout_s):
                await connection.request("ping", {})
        except (UpstreamRefusal, TimeoutError) as error:
            return isinstance(error, UpstreamRefusal) and error.details.status == 404
        return False

    # -- connections -------------------------------------------------------------------------------

    async def _connection(self, asks: frozenset[str], principal: Principal | None = None) -> UpstreamConnection:
        """The one that there is, or a new one: whoever comes while it is opened waits for the same."""
        found = self._connections.get(self._key(asks, principal))
        if found is not None and found.is_open:
            return found
        async with self._opening:
            key = self._key(asks, principal)
            found = self._connections.pop(key, None)
            if found is not None and found.is_open:
                self._connections[key] = found
                return found
            opened = await self._opened(asks)
            self.revision = opened.revision
            self._connections[self._key(asks, principal)] = opened
            while len(self._connections) > MOST_SESSIONS:
                await self._connections.pop(next(iter(self._connections))).close()
            return opened

    def _key(self, asks: frozenset[str], principal: Principal | None) -> SessionKey:
        """Which connection serves a call that can be asked this. In a session of the older era a server keeps the
        folders that it was told of: whoever has some has a session alone."""
        if self.upstream.kind == "stdio" or self.revision is None or self.revision.is_modern:
            return SHARED
        return asks, principal if "roots" in asks else None

    async def _opened(self, asks: frozenset[str]) -> UpstreamConnection:
        reach = await self._reach(self.upstream)
        self._scrubber = reach.scrubber
        if self.upstream.kind == "stdio":
            return await StdioConnection.opened(reach, self.revision)
        return await http_opened(reach, self.revision, asks)

    async def _discard(self, connection: UpstreamConnection) -> None:
        self.revision = None
        for key, each in list(self._connections.items()):
            if each is connection:
                del self._connections[key]
        await connection.close()

    async def close(self) -> None:
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(each.close() for each in connections), return_exceptions=True)


async def _scrubbed(scrubber: Scrubber, result: Raw) -> Raw:
    """A result without secrets."""

    def scrub() -> Raw:
        return Raw(_encode(scrubber.value(decode(result))))

    return scrub() if len(result) <= SMALL else await asyncio.to_thread(scrub)


async def _readable(result: RichResult) -> RichResult:
    """A result that has to be looked into."""
    value = result.value
    if not isinstance(value, Raw):
        return result
    return RichResult(decode(value) if len(value) <= LARGE else await asyncio.to_thread(decode, value), result.extra)


def as_rpc(error: ToolError) -> RpcError:
    """What went wrong with a request that is no call."""
    flags = {"can_retry": error.can_retry, "retry_after_ms": error.retry_after_ms}
    told = {name: value for name, value in flags.items() if value is not None}
    return RpcError(INTERNAL_ERROR, error.message, {"toolyard/error": told} if told else None, status=200)


async def pages(connection: UpstreamConnection, method: str, member: str) -> list[dict[str, Any]]:
    """All pages of a list. One that does not end, or is larger than any list may be, is none. Raises UpstreamFault."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    seen, size = set[str](), 0
    for _ in range(MOST_PAGES):
        raw = await connection.request(method, {} if cursor is None else {"cursor": cursor}, asks=ALL_ASKS)
        size += len(raw)
        if size > LARGEST_LIST:
            raise Misbehaved(f"has a list ({method}) of more than {LARGEST_LIST} bytes")
        page = object_of(raw) if len(raw) <= 2**18 else await asyncio.to_thread(object_of, raw)
        listed = page.get(member)
        if not isinstance(listed, list):
            raise Misbehaved(f"answered {method} with what is no list")
        found += [each for each in listed if isinstance(each, dict)]
        if len(found) > MOST_TOOLS:
            raise Misbehaved(f"lists more than {MOST_TOOLS} {member}")
        cursor = page.get("nextCursor") if isinstance(page.get("nextCursor"), str) else None
        if cursor is None:
            return found
        if cursor in seen:
            break
        seen.add(cursor)
    raise Misbehaved(f"has a list ({method}) that does not end")
