"""Tools of upstreams in the catalogue: each is proved, planned and held against the lock before it is served, and one
that cannot be served takes no other with it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from ..catalogue import Catalogue
from ..model.errors import Busy, DefinitionError
from ..model.lock.lock import locked
from ..model.tool import Host, Tool
from ..model.upstream import Upstream
from .plans import Plan, ToolPlans
from .worker_lock import ToolLock

BUSY_S = 1.0
_log = logging.getLogger("toolyard.upstream")
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


class UpstreamTools:
    """What is served of each upstream. Costly definitions are looked at in a thread, and a definition once."""

    def __init__(
        self,
        catalogue: Catalogue,
        plans: ToolPlans,
        lock: ToolLock,
        check: Callable[[Tool], None] = lambda tool: None,
        hosts: Mapping[str, Host] = MappingProxyType({}),
    ) -> None:
        """`check` raises DefinitionError for a tool that some wire cannot tell of. `hosts` are the apps that upstreams
        belong to, where one does, by the upstreams' names: their hooks are around its tools."""
        self._catalogue, self._plans, self._lock, self._check = catalogue, plans, lock, check
        self._hosts = hosts
        self._served: dict[str, dict[str, Tool]] = {}
        """By upstream, and by what is offered."""
        self._refused: dict[str, dict[str, str]] = {}
        """By upstream, and by what is offered: what was tried in vain."""
        self._judged: dict[str, int] = {}
        """By upstream: which lock it was held against."""
        self._changing = asyncio.Lock()

    async def serve(self, upstream: Upstream, tools: Sequence[Tool]) -> Mapping[str, str]:
        """Serves these tools of an upstream and no others of it. Which of them are not served, by id, and why."""
        async with self._changing:
            before, refused = self._served.get(upstream.name, {}), self._refused.setdefault(upstream.name, {})
            wanted = {_offer(tool): tool for tool in tools}
            kept = {offer: tool for offer, tool in before.items() if offer in wanted}
            if self._judged.get(upstream.name) != (revision := self._lock.revision()):
                self._judged[upstream.name] = revision
                refused.clear()
                kept = {offer: tool for offer, tool in kept.items() if self._lock.objection(tool, "upstream") is None}
            new = {offer: tool for offer, tool in wanted.items() if offer not in kept and offer not in refused}
            if (host := self._hosts.get(upstream.name)) is not None:
                new = {offer: replace(tool, host=host) for offer, tool in new.items()}
            plans = await self._ready(upstream, new, refused)
            gone = [tool for offer, tool in before.items() if offer not in kept]
            added = self._change(gone, plans, refused)
            self._served[upstream.name] = kept | {_offer(tool): tool for tool in added}
            self._refused[upstream.name] = {offer: why for offer, why in refused.items() if offer in wanted}
            if gone or added:
                _log.info("%s: of %d tools %d came and %d went", upstream.name, len(wanted), len(added), len(gone))
            return {wanted[offer].id: why for offer, why in self._refused[upstream.name].items()}

    async def _ready(self, upstream: Upstream, new: Mapping[str, Tool], refused: dict[str, str]) -> dict[Tool, Plan]:
        """Everything that serving them takes, before anything changes."""
        proved: list[Tool] = []
        for offer, tool in new.items():
            try:
                await self._prove(tool, upstream.name)
                proved.append(tool)
            except ValueError as error:
                refused[offer] = str(error)
        return await asyncio.to_thread(self._planned, proved, refused) if proved else {}

    async def _prove(self, tool: Tool, upstream: str) -> None:
        """Raises ValueError."""
        whose = ("upstream", upstream)
        for schema in (tool.input_schema, tool.output_schema or {}):
            while True:
                try:
                    await self._plans.sandbox.prove(schema, whose)
                    break
                except Busy:
                    await asyncio.sleep(BUSY_S)
                except ValueError as error:
                    raise ValueError(f"it has a schema that cannot be checked: {error}") from None

    def _planned(self, tools: Sequence[Tool], refused: dict[str, str]) -> dict[Tool, Plan]:
        """In a thread."""
        plans: dict[Tool, Plan] = {}
        for tool in tools:
            try:
                plan = self._plans.make(tool)
                self._check(tool)
                locked(tool)
                objection = self._lock.objection(tool, "upstream")
            except DefinitionError as error:
                objection = error.message
            except UNREADABLE as error:
                objection = _why(error)
            if objection is None:
                plans[tool] = plan
            else:
                refused[_offer(tool)] = objection
        return plans

    def _change(self, gone: Sequence[Tool], plans: Mapping[Tool, Plan], refused: dict[str, str]) -> list[Tool]:
        """In one change. Whose name is taken is refused alone."""
        fitting = []
        for tool in plans:
            others = (self._catalogue.taken(name) for name in tool.names)
            taken = next(
                (each for each in others if each is not None and each.id != tool.id and each not in gone), None
            )
            if taken is None:
                fitting.append(tool)
            else:
                refused[_offer(tool)] = f"its name is that of {taken.id}; give the upstream another name"
        self._plans.adopt({tool: plans[tool] for tool in fitting})
        return self._added(fitting, gone, refused)

    def _added(self, tools: list[Tool], gone: Sequence[Tool], refused: dict[str, str]) -> list[Tool]:
        """Halves of them, and halves of those, where something is refused: so that it is refused alone."""
        if not tools and not gone:
            return []
        try:
            self._catalogue.change(add=tools, remove=gone)
            return tools
        except DefinitionError as error:
            if len(tools) == 1:
                self._plans.forget(tools[0])
                refused[_offer(tools[0])] = error.message
                return self._added([], gone, refused)
            half = len(tools) // 2
            return [*self._added(tools[:half], gone, refused), *self._added(tools[half:], (), refused)]


def _offer(tool: Tool) -> str:
    return tool.offer or tool.reference


def _why(error: BaseException) -> str:
    return "its definition is nested too deeply" if isinstance(error, RecursionError) else str(error)[:2000]
