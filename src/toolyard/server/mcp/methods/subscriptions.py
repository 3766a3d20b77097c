"""Who wants to hear when something changes: the tools, prompts and resources of the author and of upstreams, a task."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ....catalogue import Catalogue, CatalogueChange
from ....engine.own_calls import OwnCalls
from ....engine.wait import Wait, holding, stopping
from ....model.asset import Asset
from ....model.caller import UNLIMITED, Caller, CurrentView
from ....model.channel import nothing
from ....model.json_value import decode
from ....model.record import CallRecord
from ....store.contract import Store
from ....store.hints import Topic
from ....wires.mcp.envelope import encode_notification
from ....wires.mcp.params import SUBSCRIPTION, Listen, SubscriptionFilter, decode_params
from ...http.streams import StreamCount
from ..protocol.peer import McpRequest, Outlet, Peer
from ..protocol.sessions import refuse_many
from .tasks import Tasks
from .tools_call import needs_tasks

LOOK_S = 60.0
LISTENING = "mcp listening"
PROMPTS, RESOURCES = "prompts", "resources"
"""What changed, as nodes tell each other; neither is the address of a resource."""
ENDED_AS = ("completed", "failed", "cancelled")
_encode = msgspec.json.Encoder().encode


class Subscriber(Struct, eq=False):
    """Somebody who hears of changes: what they want to hear of, and `tell`, which sends a notification (its method and
    its parameters) to them."""

    wanted: SubscriptionFilter
    tell: Callable[[str, dict[str, Any]], None]
    tasks_of: Caller | None = None
    """The older era: whose tasks it is told of."""
    current: CurrentView = UNLIMITED
    """Which tools and resources there are for it."""
    session: str | None = None
    """The older era: the client's."""


class Subscriptions:
    """The subscribers that are connected to this node. Changes on other nodes reach it through the ledger's hints: of
    tools, which workers bring, by way of the catalogue; of what an author's own server has, here."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        own: OwnCalls,
        tasks: Tasks,
        streams: StreamCount,
        most: int,
        tells_of: Callable[[str], bool] = lambda uri: True,
    ) -> None:
        """`most`: how many resources and tasks one client may follow; `tells_of`: whether changes of a resource are
        heard of here."""
        self.most, self._own, self._tells_of = most, own, tells_of
        self._when_followed: Callable[[], None] = nothing
        self._store, self._tasks, self._streams = store, tasks, streams
        self._subscribers: set[Subscriber] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        catalogue.subscribe(self.tools_changed)

    def tools_changed(self, change: CatalogueChange) -> None:
        """Told to those whose list it changes."""
        changed = (*change.added, *change.removed)
        self._tell(
            lambda each: each.wanted.tools and any(map(each.current.view.lists, changed)),
            "notifications/tools/list_changed",
        )

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hears of what authors' servers on all nodes offer, as long as this server runs."""
        self._loop = asyncio.get_running_loop()
        forget = self._store.hints.watch_all(Topic.OFFERED, self._offered)
        try:
            yield
        finally:
            forget()

    def on_followed(self, listener: Callable[[], None]) -> None:
        """`listener` is called each time that clients here may follow other resources than before."""
        self._when_followed = listener

    def follows_others(self) -> None:
        """A subscriber follows other resources than before. On the loop."""
        self._when_followed()

    def followed(self) -> set[str]:
        """The resources that clients of this node follow, and may."""
        found: set[str] = set()
        for each in self._subscribers:
            view = each.current.view
            found.update(uri for uri in each.wanted.uris if view.lists_offer(Asset("resources", uri)))
        return found

    def changed_here(self, what: str) -> None:
        """Of prompts, resources, or the resource of that address other nodes hear by themselves: each follows all
        upstreams."""
        self._offered(what)

    def prompts_changed(self) -> None:
        self._tell_nodes(PROMPTS)

    def resources_changed(self) -> None:
        self._tell_nodes(RESOURCES)

    def resource_updated(self, uri: str) -> None:
        self._tell_nodes(uri)

    def _tell_nodes(self, what: str) -> None:
        """This node, too. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._store.tell, Topic.OFFERED, what)

    def _offered(self, what: Hashable) -> None:
        """Prompts, resources, or the address of a resource, changed on some node."""
        if what == PROMPTS:
            self._tell(lambda each: each.wanted.prompts, "notifications/prompts/list_changed")
        elif what == RESOURCES:
            self._tell(lambda each: each.wanted.resources, "notifications/resources/list_changed")
        else:
            self._updated(str(what))

    def _updated(self, uri: str) -> None:
        """Told to those for whom it is there."""
        offer = Asset("resources", uri)
        self._tell(
            lambda each: uri in each.wanted.uris and each.current.view.lists_offer(offer),
            "notifications/resources/updated",
            {"uri": uri},
        )

    def _tell(self, is_wanted: Callable[[Subscriber], bool], method: str, params: dict[str, Any] | None = None) -> None:
        """From any thread: the catalogue may be changed in one."""
        wanting = [each for each in self._subscribers if is_wanted(each)]
        if wanting and self._loop is not None:
            for each in wanting:
                self._loop.call_soon_threadsafe(each.tell, method, dict(params or {}))

    def tell_one(self, session: str, method: str, params: dict[str, Any], may_hear: Callable[[Caller], bool]) -> bool:
        """On one of the streams of a session, if it has one here that may hear it. Whether it has."""
        fitting = (each for each in self._subscribers if each.session == session and each.tasks_of is not None)
        hearing = next((each for each in fitting if each.tasks_of is not None and may_hear(each.tasks_of)), None)
        if hearing is None:
            return False
        hearing.tell(method, params)
        return True

    @contextmanager
    def hearing(self, subscriber: Subscriber) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._subscribers.add(subscriber)
        self._when_followed()
        try:
            yield
        finally:
            self._subscribers.discard(subscriber)
            self._when_followed()

    async def listen(self, request: McpRequest) -> bytes:
        """`subscriptions/listen`: until the client goes, its credentials end, or the server stops."""
        peer, outlet = request.peer, request.outlet
        if self._store.hints.is_leaving:
            raise stopping()
        wanted = decode_params(request.message, Listen).notifications
        if wanted.tasks and not peer.has_tasks:
            raise needs_tasks()
        refuse_many((*wanted.uris, *wanted.tasks), self.most)
        mark = {"_meta": {SUBSCRIPTION: request.message.id}}

        def tell(method: str, params: dict[str, Any]) -> None:
            outlet.send(encode_notification(method, {**mark, **params}))

        with ExitStack() as stack:
            stack.enter_context(self._streams.one(peer.caller))
            told = replace(wanted, uris=tuple(filter(self._tells_of, wanted.uris)))
            tell("notifications/subscriptions/acknowledged", {"notifications": told})
            stack.enter_context(self.hearing(Subscriber(wanted, tell, current=peer.caller.current)))
            for id in wanted.tasks:
                stack.callback(await self._watch(id, peer, tell))
            await self.until_gone(outlet)
        return _encode(
            {"resultType": "complete", "_meta": {SUBSCRIPTION: request.message.id, **peer.revision.server_info}}
        )

    async def until_gone(self, outlet: Outlet) -> None:
        async def never() -> bool:
            return False

        await holding(self._store, ((Topic.SESSION, LISTENING),), Wait(None, outlet), never, LOOK_S)

    async def _watch(self, id: str, peer: Peer, tell: Callable[[str, dict[str, Any]], None]) -> Callable[[], None]:
        """Tells of a task now, and each time it changes. What is not the caller's is never told of."""
        call = await self._tasks.find(id, peer)
        if call is None:
            return lambda: None
        changed, forget = self._on_change(call.seq, peer, lambda _, shown: tell("notifications/tasks", shown))
        changed()
        return forget

    def follow(self, seq: int, peer: Peer) -> None:
        """The older era: whoever of the caller's listens is told of a task, until it ends."""

        def tell(call: CallRecord, shown: dict[str, Any]) -> None:
            if shown["status"] in ENDED_AS:
                forget()
            for each in self._subscribers:
                whose = each.tasks_of
                if whose is not None and whose.names == peer.caller.names and self._own.shows(call, whose):
                    each.tell("notifications/tasks/status", shown)

        _, forget = self._on_change(seq, peer, tell)

    def _on_change(
        self, seq: int, peer: Peer, tell: Callable[[CallRecord, dict[str, Any]], None]
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """Has a call told of whenever it ends, asks, or is answered. What to call to tell now, and to stop."""
        telling: set[asyncio.Task[None]] = set()

        async def show() -> None:
            row = await self._store.row(seq)
            if row is not None:
                tell(row, _without_type(await self._tasks.shown(row, peer)))

        def changed() -> None:
            task = asyncio.get_running_loop().create_task(show())
            telling.add(task)
            task.add_done_callback(telling.discard)

        ended, asked = (self._store.hints.watch(topic, seq, changed) for topic in (Topic.ENDED, Topic.QUESTION))

        def forget() -> None:
            ended()
            asked()

        return changed, forget


def _without_type(shown: bytes) -> dict[str, Any]:
    made: dict[str, Any] = decode(shown)
    return {name: value for name, value in made.items() if name not in ("resultType", "_meta")}
