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
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ..model.errors import ToolError
from ..model.json_value import decode_as
from ..model.run import RichResult, Run
from ..model.tool import Tool
from ..model.upstream import Upstream
from ..model.worker import offer_of, owner_of
from ..text.hidden import in_one_line
from ..wires.mcp.assets import ASSET_LISTS
from ..wires.mcp.revisions import R_2025_03_26, REVISIONS, Revision
from .asset_request import AssetClient
from .assets import AssetDirectory, UpstreamAssets
from .call import KEY, named_in
from .connection import UPDATED, UpstreamInfo
from .definitions import MadeTools, UpstreamCode, UpstreamListing, tools_of
from .faults import Lost, Misbehaved, UpstreamFault, UpstreamRefusal
from .health import HealthFigures
from .link import GetReach, UpstreamLink

LIST_AGAIN_S = 300.0
"""How often an upstream is listed that does not say when its list changes."""
SHORTEST_S, LONGEST_S = 1.0, 60.0
"""Between two lists of an upstream whose list changes each time."""
LOOK_AT_LOCK_S = 1.0
JITTER = 0.1
TOOLS = "tools/list"
CHANGED = {
    "notifications/tools/list_changed": (TOOLS,),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""The lists to look at again, by what an upstream says."""
ALL_LISTS = (TOOLS, *ASSET_LISTS)
TOGETHER_S = 0.05
"""Resources that change within this time are told of together, and each of them once."""
MOST_FOLLOWED = 1_000
"""Resources of an upstream."""
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
ResultNames = Callable[[Run, str, Sequence[str]], None]
"""Is told of the resources that a result of an upstream's tool names: by which call, of which upstream, and which."""


class UpstreamReport(Struct, frozen=True):
    """An upstream, for whoever runs the server."""

    name: str
    kind: str
    place: str
    era: str | None
    tools: int
    withheld: Mapping[str, str]
    """Tools that it has and that are not served, by their own names or ids, and why; prompts and resources as
    `prompts/NAME` and `resources/URI`."""
    figures: HealthFigures
    prompts: int = 0
    resources: int = 0
    """With templates."""


class FollowedUpstream:
    """One upstream, and what is served of it."""

    def __init__(
        self,
        upstream: Upstream,
        reach: GetReach,
        shelf: Shelf,
        serve: Serve,
        on_assets: Callable[[Iterable[str]], None],
        on_updated: Callable[[str], None],
    ) -> None:
        """`on_assets` is told which lists of prompts and resources say something new, `on_updated` which resource
        changed that is followed."""
        self.upstream, self._shelf, self._serve = upstream, shelf, serve
        self._on_assets, self._on_updated = on_assets, on_updated
        self.link = UpstreamLink(upstream, reach)
        self.assets = UpstreamAssets(upstream)
        self.info: UpstreamInfo | None = None
        """What it said of itself when it was last heard; None: it never was."""
        self.served = 0
        self._tools_withheld: Mapping[str, str] = {}
        self._kept = b""
        self._told = ""
        self._pause_s = SHORTEST_S
        self._listed_at = 0.0
        self._changed: set[str] = set()
        """Lists to look at again."""
        self._has_changed = asyncio.Event()
        self._followed: frozenset[str] = frozenset()
        self._follows_others = asyncio.Event()
        self._updated: set[str] = set()

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
                await self._list(ALL_LISTS)
                await self._attend()
            except (UpstreamFault, TimeoutError) as fault:
                trouble = self.link.said(fault) or "did not list its tools in time"
                self.link.health.fails(trouble)
                self._tell(trouble)
                await self._rest(max(self.link.health.pause_s, SHORTEST_S))

    def look_again(self) -> None:
        """Something about its tools may be decided otherwise by now, such as what is locked."""
        self._look_at((TOOLS,))

    async def _rest(self, seconds: float) -> None:
        """Waits. Whatever is decided meanwhile about its tools, as they were last listed, holds for them."""
        end = time.monotonic() + _jittered(seconds)
        while (left := end - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._has_changed.wait()
            except TimeoutError:
                return
            self._changed.clear()
            self._has_changed.clear()
            await self.serve_kept()

    def follow_resources(self, uris: frozenset[str]) -> None:
        """Has it tell when one of these changes, and of no other."""
        if uris != self._followed:
            self._followed = uris
            self._follows_others.set()

    def has(self, capability: str, part: str | None = None) -> bool:
        """Whether it has something, or may have: as long as it was never heard, nobody knows."""
        if self.info is None:
            return True
        found = self.info.capabilities.get(capability)
        return found is not None if part is None else isinstance(found, dict) and found.get(part) is True

    # -- lists ---------------------------------------------------------------------------------------

    async def _list(self, methods: Sequence[str]) -> None:
        """Tools first: what is wrong with another list does not hold them up. Raises UpstreamFault."""
        is_first = not self._listed_at
        is_new = TOOLS in methods and await self._list_tools()
        changed = [method for method in methods if method != TOOLS and await self._list_assets(method)]
        # An upstream whose lists are others each time is listed less and less often.
        has_changed = (is_new or bool(changed)) and not is_first
        self._pause_s = min(2 * self._pause_s, LONGEST_S) if has_changed else SHORTEST_S
        self._listed_at = time.monotonic()
        self._on_assets(changed)

    async def _list_tools(self) -> bool:
        listing = await self.link.listing()
        self.link.health.works()
        self._tell("")
        self._listed_at = time.monotonic()
        encoded = await asyncio.to_thread(_encode, listing)
        await self._serve_listing(listing)
        if encoded == self._kept:
            return False
        was_known, self._kept = bool(self._kept), encoded
        await self._shelf.keep(self.upstream, encoded)
        return was_known

    async def _list_assets(self, method: str) -> bool:
        """Whether it lists something new by a method. What it listed before stays while this list cannot be had."""
        try:
            entries = await self.link.asset_list(method)
        except (UpstreamRefusal, Misbehaved, TimeoutError) as fault:
            self.assets.troubles[method] = str(fault) or "it was not listed in time"
            return False
        if len(entries) <= LARGE_LIST:
            return self.assets.take(method, entries)
        return await asyncio.to_thread(self.assets.take, method, entries)

    async def _serve_listing(self, listing: UpstreamListing) -> None:
        self.info = listing.info
        self.assets.take_pages(listing.tools)
        made = await made_tools(self.upstream, listing)
        not_served = await self._serve(self.upstream, made.tools)
        self._tools_withheld = {**made.rejected, **not_served}
        self.served = len(made.tools) - len(not_served)

    @property
    def withheld(self) -> Mapping[str, str]:
        return {**self._tools_withheld, **self.assets.rejected}

    # -- what it tells of its own accord ---------------------------------------------------------------

    async def _attend(self) -> None:
        """Hears what the upstream tells, and lists it again when it says so. Raises UpstreamFault where it is gone."""
        doing = [asyncio.ensure_future(each()) for each in (self._hear, self._list_again, self._tell_followed)]
        try:
            await asyncio.wait(doing, return_when=asyncio.FIRST_COMPLETED)
            for each in doing:
                if each.done():
                    each.result()
        finally:
            for each in doing:
                each.cancel()
            await asyncio.gather(*doing, return_exceptions=True)

    async def _hear(self) -> None:
        """Raises Lost where the connection is over."""
        while True:
            try:
                notice = await self.link.changes()
            except (UpstreamRefusal, Misbehaved):  # it has no way to tell; perhaps later
                await _pause(LIST_AGAIN_S)
            except Lost:
                if self.upstream.kind == "stdio":
                    raise
                await _pause(SHORTEST_S)
            else:
                if notice.method == UPDATED:
                    self._hear_of_resource(notice.uri)
                else:
                    self._look_at(CHANGED.get(notice.method, ()))

    def _hear_of_resource(self, uri: str) -> None:
        if uri in self._followed:
            if not self._updated:
                asyncio.get_running_loop().call_later(TOGETHER_S, self._tell_of_resources)
            self._updated.add(uri)

    def _tell_of_resources(self) -> None:
        updated, self._updated = self._updated, set()
        for uri in sorted(updated & self._followed):
            self._on_updated(uri)

    def _look_at(self, methods: Iterable[str]) -> None:
        self._changed.update(methods)
        if self._changed:
            self._has_changed.set()

    async def _list_again(self) -> None:
        """Lists what changed, and everything now and then. Raises UpstreamFault."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_jittered(LIST_AGAIN_S)):
                    await self._has_changed.wait()
            too_soon = self._listed_at + self._pause_s - time.monotonic()
            if too_soon > 0:
                await asyncio.sleep(too_soon)
            changed = [method for method in ALL_LISTS if method in self._changed] or ALL_LISTS
            self._changed.clear()
            self._has_changed.clear()
            await self._list(changed)

    async def _tell_followed(self) -> None:
        """Raises UpstreamFault."""
        while True:
            await self._follows_others.wait()
            self._follows_others.clear()
            await self.link.follow(self._followed)

    def _tell(self, trouble: str) -> None:
        """In the log, once, and not each time that it is tried."""
        if trouble and trouble != self._told:
            _log.warning("the upstream %s %s", self.upstream.name, in_one_line(trouble))
        elif not trouble and (self._told or not self._listed_at):
            _log.info(
                "the upstream %s is there (%s)", self.upstream.name, self.link.revision and self.link.revision.name
            )
        self._told = trouble

    def report(self, taken: Mapping[str, str] = MappingProxyType({})) -> UpstreamReport:
        """`taken` is what it lists and others have, with why it is not served."""
        up, era = self.upstream, self.link.revision
        prompts, *resources_of = (len(listed) for listed in self.assets.listed.values())
        resources = sum(resources_of)
        return UpstreamReport(
            up.name,
            up.kind,
            up.place,
            None if era is None else era.name,
            self.served,
            {**self.withheld, **taken},
            self.link.health.figures(),
            prompts,
            resources,
        )


class Upstreams:
    """The upstreams of one server, the runner of their tools (`model.run.Runner`), and the way to what else they
    offer."""

    waits_for_claim = False
    has_foreign_schemas = can_ask = takes_meta = True
    place = "at an upstream"

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        reach: GetReach,
        shelf: Shelf,
        serve: Serve,
        key_of: KeyOf,
        named: ResultNames = lambda run, upstream, uris: None,
    ) -> None:
        self._key_of, self._named = key_of, named
        self._on_updated: list[Callable[[str], None]] = []
        self.followed = {
            each.name: FollowedUpstream(each, reach, shelf, serve, self._assets_changed, self._resource_updated)
            for each in upstreams
        }
        self.assets = AssetDirectory({name: each.assets for name, each in self.followed.items()})
        self.owners = {_owner(each.upstream): name for name, each in self.followed.items()}
        """By the owners that offers of their tools name."""

    async def run(self, arguments: dict[str, Any], run: Run) -> RichResult:
        """As `Runner` says it."""
        code = run.tool.code
        followed = self.followed.get(code.upstream) if isinstance(code, UpstreamCode) else None
        if followed is None or not isinstance(code, UpstreamCode):
            raise ToolError(f"{run.tool.id} has no upstream any more", can_retry=False)
        result = await followed.link.call(run, code, arguments, self._meta(run, code))
        if uris := named_in(result):
            self._named(run, code.upstream, uris)
        return result

    # -- what they offer beside tools ------------------------------------------------------------------

    def has(self, capability: str, part: str | None = None) -> bool:
        """Whether one of them has something, such as `resources`, `subscribe`; or may have, since it was never
        heard."""
        return any(each.has(capability, part) for each in self.followed.values())

    async def request(self, upstream: str, method: str, params: Mapping[str, Any], client: AssetClient) -> Raw:
        """What an upstream answers to a request for a prompt, a resource or a completion. Raises RpcError."""
        return await self.followed[upstream].link.request(method, params, client)

    def completes(self, upstream: str) -> bool:
        """Whether it has completions."""
        return self.followed[upstream].has("completions")

    def place_of(self, uri: str) -> str | None:
        """The upstream at which a resource is known to be: it lists it, or has a template that it fits."""
        return self.assets.place_of(uri) or self.assets.fitting(uri)

    def tells_of(self, uri: str) -> bool:
        """Whether a change of this resource would be heard of; also where it is none of an upstream's."""
        upstream = self.place_of(uri)
        return upstream is None or self.followed[upstream].has("resources", "subscribe")

    def follow_resources(self, uris: Iterable[str]) -> None:
        """Has upstreams tell when one of these changes, and of no other."""
        wanted: dict[str, set[str]] = {name: set() for name in self.followed}
        for uri in uris:
            upstream = self.place_of(uri)
            if upstream is not None and len(wanted[upstream]) < MOST_FOLLOWED:
                wanted[upstream].add(uri)
        for name, each in wanted.items():
            self.followed[name].follow_resources(frozenset(each))

    def on_resource_updated(self, listener: Callable[[str], None]) -> None:
        """`listener` is told each time that a resource changes that is followed."""
        self._on_updated.append(listener)

    def _assets_changed(self, methods: Iterable[str]) -> None:
        self.assets.changed(methods)

    def _resource_updated(self, uri: str) -> None:
        for listener in self._on_updated:
            listener(uri)

    # -- the rest --------------------------------------------------------------------------------------

    def _meta(self, run: Run, code: UpstreamCode) -> dict[str, Any]:
        """What goes along with a call. The caller's own key stays here: those who share our credentials upstream would
        meet under it."""
        meta: dict[str, Any] = dict(run.meta)
        if code.knows_keys and run.keyed:
            meta[KEY] = self._key_of(run)
        return meta

    async def serve_kept(self) -> None:
        """Serves what is known of all of them, before anybody has connected."""
        for each in self.followed.values():
            await each.serve_kept()

    def tasks(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What has to run beside the server, with a name for each."""
        return [(f"upstream {name}", each.follow) for name, each in self.followed.items()]

    async def follow_lock(self, revision: Callable[[], int]) -> None:
        """Has what is served judged again soon after the lock has changed, whose number this is. Until cancelled."""
        seen = revision()
        while True:
            await asyncio.sleep(LOOK_AT_LOCK_S)
            if (now := revision()) != seen:
                seen = now
                for each in self.followed.values():
                    each.look_again()

    def reports(self) -> list[UpstreamReport]:
        return [each.report(self.assets.doubles(name)) for name, each in self.followed.items()]

    async def close(self) -> None:
        await asyncio.gather(*(each.link.close() for each in self.followed.values()), return_exceptions=True)


async def made_tools(upstream: Upstream, listing: UpstreamListing) -> MadeTools:
    """The tools of a list; of a long one in a thread."""
    if len(listing.tools) <= LARGE_LIST:
        return tools_of(upstream, listing, revision_of(listing))
    return await asyncio.to_thread(tools_of, upstream, listing, revision_of(listing))


def _owner(upstream: Upstream) -> str:
    """As the offers of its tools name it."""
    return owner_of(offer_of("", ("upstream", upstream.name, upstream.address), b""))


def revision_of(listing: UpstreamListing) -> Revision:
    return REVISIONS.get(listing.revision, R_2025_03_26)


async def _pause(seconds: float) -> None:
    await asyncio.sleep(_jittered(seconds))


def _jittered(seconds: float) -> float:
    """So that many nodes do not come at the same moment."""
    return seconds * (1 + random.uniform(-JITTER, JITTER))
