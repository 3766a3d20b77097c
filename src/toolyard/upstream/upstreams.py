"""All upstreams of a server: their tools are served as soon as they are known, and their calls find their way.

Each upstream has a task of its own, which connects, lists, and lists again when it hears of a change; none of them
waits for another, and nobody waits for them. What an upstream listed last is kept, so that its tools are there, and
fail with a sentence, while it is not.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..model.errors import ToolError
from ..model.json_value import decode_as
from ..model.run import RichResult, Run
from ..model.tool import Tool
from ..model.upstream import Upstream
from ..text.hidden import in_one_line
from ..wires.mcp.revisions import R_2025_03_26, REVISIONS, Revision
from .definitions import MadeTools, UpstreamCode, UpstreamListing, tools_of
from .faults import Lost, Misbehaved, UpstreamFault, UpstreamRefusal
from .health import HealthFigures
from .link import GetReach, UpstreamLink

LIST_AGAIN_S = 300.0
"""How often an upstream is listed that does not say when its list changes."""
SHORTEST_S, LONGEST_S = 1.0, 60.0
"""Between two lists of an upstream whose list changes each time."""
JITTER = 0.1
TOOLS_CHANGED = "notifications/tools/list_changed"
LARGE_LIST = 50
"""Tools: a larger list is looked through in a thread."""
_log = logging.getLogger("toolyard.upstream")
_encode = msgspec.json.Encoder(order="sorted").encode


class Shelf(Protocol):
    """Where lists are kept for the time when their upstream cannot be reached."""

    async def kept(self, upstream: Upstream) -> bytes | None: ...

    async def keep(self, upstream: Upstream, listing: bytes) -> None: ...


Serve = Callable[[Upstream, Sequence[Tool]], Awaitable[Mapping[str, str]]]
"""Serves these tools of an upstream and no others of it; which of them are not served, by their ids, and why."""
KeyOf = Callable[[Run], str]
"""The key under which an upstream that knows keys is given a call."""


class UpstreamReport(Struct, frozen=True):
    """An upstream, for whoever runs the server."""

    name: str
    kind: str
    place: str
    era: str | None
    tools: int
    withheld: Mapping[str, str]
    """Tools that it has and that are not served, by their own names or ids, and why."""
    figures: HealthFigures


class FollowedUpstream:
    """One upstream, and what is served of it."""

    def __init__(self, upstream: Upstream, reach: GetReach, shelf: Shelf, serve: Serve) -> None:
        self.upstream, self._shelf, self._serve = upstream, shelf, serve
        self.link = UpstreamLink(upstream, reach)
        self.served = 0
        self.withheld: Mapping[str, str] = {}
        self._kept = b""
        self._told = ""
        self._pause_s = SHORTEST_S
        self._listed_at = 0.0
        self._changed = asyncio.Event()

    async def serve_kept(self) -> None:
        """Serves what was listed when the upstream was last there."""
        kept = await self._shelf.kept(self.upstream)
        if kept is None:
            return
        try:
            listing = await asyncio.to_thread(decode_as, kept, UpstreamListing)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("what is kept of the upstream %s cannot be read: %s", self.upstream.name, error)
            return
        self._kept = kept
        self.link.revision = revision_of(listing)
        await self._serve_listing(listing)

    async def follow(self) -> None:
        """Keeps what is served in line with what the upstream lists. Until cancelled."""
        while True:
            try:
                await self._list()
                await self._until_changed()
            except (UpstreamFault, TimeoutError) as fault:
                trouble = fault.trouble if isinstance(fault, UpstreamFault) else "did not list its tools in time"
                self.link.health.fails(trouble)
                self._tell(trouble)
                await _pause(max(self.link.health.pause_s, SHORTEST_S))

    def look_again(self) -> None:
        """Something about its tools may be decided otherwise by now, such as what is locked."""
        self._changed.set()

    async def _list(self) -> None:
        listing = await self.link.listing()
        self.link.health.works()
        self._tell("")
        self._listed_at = time.monotonic()
        encoded = await asyncio.to_thread(_encode, listing)
        is_new = encoded != self._kept
        # An upstream whose list is another each time is listed less and less often.
        self._pause_s = min(2 * self._pause_s, LONGEST_S) if is_new and self._kept else SHORTEST_S
        await self._serve_listing(listing)
        if is_new:
            self._kept = encoded
            await self._shelf.keep(self.upstream, encoded)

    async def _serve_listing(self, listing: UpstreamListing) -> None:
        made = await made_tools(self.upstream, listing)
        not_served = await self._serve(self.upstream, made.tools)
        self.withheld = {**made.rejected, **not_served}
        self.served = len(made.tools) - len(not_served)

    async def _until_changed(self) -> None:
        """Raises UpstreamFault where the upstream is gone."""
        self._changed.clear()
        hearing = asyncio.ensure_future(self._hear_of_change())
        looking = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((hearing, looking), timeout=_jittered(LIST_AGAIN_S), return_when="FIRST_COMPLETED")
            if hearing.done():
                hearing.result()
        finally:
            for each in (hearing, looking):
                each.cancel()
            await asyncio.gather(hearing, looking, return_exceptions=True)
        too_soon = self._listed_at + self._pause_s - time.monotonic()
        if too_soon > 0:
            await asyncio.sleep(too_soon)

    async def _hear_of_change(self) -> None:
        """Ends with the next change of the list of tools, and not at all where the upstream has no way to tell of one.
        Raises Lost where the connection is over."""
        while True:
            try:
                if await self.link.changes() == TOOLS_CHANGED:
                    return
            except (UpstreamRefusal, Misbehaved):
                await asyncio.Event().wait()
            except Lost:
                if self.upstream.kind == "stdio":
                    raise
                await _pause(SHORTEST_S)

    def _tell(self, trouble: str) -> None:
        """In the log, once, and not each time that it is tried."""
        if trouble and trouble != self._told:
            _log.warning("the upstream %s %s", self.upstream.name, in_one_line(trouble))
        elif not trouble and (self._told or not self._listed_at):
            _log.info(
                "the upstream %s is there (%s)", self.upstream.name, self.link.revision and self.link.revision.name
            )
        self._told = trouble

    def report(self) -> UpstreamReport:
        up, era = self.upstream, self.link.revision
        return UpstreamReport(
            up.name,
            up.kind,
            up.place,
            None if era is None else era.name,
            self.served,
            self.withheld,
            self.link.health.figures(),
        )


class Upstreams:
    """The upstreams of one server, and the runner of their tools (`model.run.Runner`)."""

    waits_for_claim = False
    has_foreign_schemas = True
    can_ask = True
    place = "at an upstream"

    def __init__(
        self, upstreams: Iterable[Upstream], reach: GetReach, shelf: Shelf, serve: Serve, key_of: KeyOf
    ) -> None:
        self._key_of = key_of
        self.followed = {each.name: FollowedUpstream(each, reach, shelf, serve) for each in upstreams}

    async def run(self, arguments: dict[str, Any], run: Run) -> RichResult:
        """As `Runner` says it."""
        code = run.tool.code
        followed = self.followed.get(code.upstream) if isinstance(code, UpstreamCode) else None
        if followed is None or not isinstance(code, UpstreamCode):
            raise ToolError(f"{run.tool.id} has no upstream any more", can_retry=False)
        return await followed.link.call(run, code, arguments, self._meta(run, code))

    def _meta(self, run: Run, code: UpstreamCode) -> dict[str, Any]:
        """What goes along with a call. The caller's own key stays here: those who share our credentials upstream would
        meet under it."""
        meta: dict[str, Any] = dict(run.meta)
        if code.knows_keys and run.keyed:
            meta["toolyard/callId"] = self._key_of(run)
        return meta

    async def serve_kept(self) -> None:
        """Serves what is known of all of them, before anybody has connected."""
        for each in self.followed.values():
            await each.serve_kept()

    def tasks(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What has to run beside the server, with a name for each."""
        return [(f"upstream {name}", each.follow) for name, each in self.followed.items()]

    def reports(self) -> list[UpstreamReport]:
        return [each.report() for each in self.followed.values()]

    async def close(self) -> None:
        await asyncio.gather(*(each.link.close() for each in self.followed.values()), return_exceptions=True)


async def made_tools(upstream: Upstream, listing: UpstreamListing) -> MadeTools:
    """The tools of a list; of a long one in a thread."""
    if len(listing.tools) <= LARGE_LIST:
        return tools_of(upstream, listing, revision_of(listing))
    return await asyncio.to_thread(tools_of, upstream, listing, revision_of(listing))


def revision_of(listing: UpstreamListing) -> Revision:
    return REVISIONS.get(listing.revision, R_2025_03_26)


async def _pause(seconds: float) -> None:
    await asyncio.sleep(_jittered(seconds))


def _jittered(seconds: float) -> float:
    """So that many nodes do not come at the same moment."""
    return seconds * (1 + random.uniform(-JITTER, JITTER))
