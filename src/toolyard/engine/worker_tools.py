"""Tools that workers offer: in the catalogue, on every node, for as long as a worker that has them lives.

The ledger knows the workers; each node reads them when it is told to, and makes its catalogue agree.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, cast
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ..catalogue import Catalogue, CatalogueChange
from ..model.caller import Caller, View
from ..model.errors import Busy, DefinitionError, Forbidden, InternalError, InvalidInput, PathNotFound, Problem, Refused
from ..model.json_value import decoder
from ..model.judge import ended_by
from ..model.lifecycle import Move, WaitingFor
from ..model.lock.lock import locked
from ..model.run import Run
from ..model.tool import REFERENCE, Host, OnLost, Origin, Tool, ToolHints, ToolkitInfo, Version, names_of
from ..model.worker import ToolDefinition, WorkerRecord, offer_of
from ..model.writes import Claimant, Decision, WaitForAccount
from ..store.contract import Store
from ..store.hints import Topic
from ..store.values import StoreDown
from ..trust.access.worker_rules import WorkerRule, WorkerRules
from ..trust.limits.quotas import Quotas
from .engine import Engine
from .plans import Plan
from .worker_lock import ToolLock, WorkerLock

LOOK_AGAIN_S = 2.0
AT_ONCE = 2
"""So many registrations are looked at at the same time, of each caller one."""
MOST_PROBLEMS = 20
SHOWN = 20
Place = tuple[str, str, str]
"""A worker: its tenant, its subject and its name."""
Owner = tuple[str, ...]
"""Whose a worker's tool is: a caller, as (tenant, subject), or NAMED."""
NAMED: Owner = ()
"""All callers together whom rules trust, or name for the tool: they share it."""
MOST_LIMITED = 1000
"""Callers with credentials that do not see all that their workers offer, of whom it is known by heart what they see."""
AT_ONCE_SUPERSEDED = 100
OFFERED_ANEW = "{tool} was offered anew as something else while the call waited; look at the tool and call it again"
UNREADABLE = (
    DefinitionError, msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
)  # fmt: skip
"""What comes of a definition that is none, or that nobody can follow to its end."""
_MARKS = re.compile(r"[_.-]").finditer
_log = logging.getLogger("toolyard.workers")
_encode = msgspec.json.Encoder(order="sorted").encode
LARGEST_DEFINITION, MOST_OFFERED = 256 * 2**10, 8 * 2**20
"""Bytes of one tool, and of all that a caller's workers offer."""
_decode = decoder(list[ToolDefinition])


class RemoteCode:
    """Stands for the function of a worker's tool, which is at the worker. Here its input is passed on as it is."""

    is_async, has_validators = True, False

    def __init__(self, worker: str) -> None:
        self.origin = Origin("", f"worker {worker}", 0)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        return dict(input)

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        raise InternalError(f"{run.tool.id} runs at its workers")

    def dump(self, value: Any) -> Any:
        return value


class WorkerRunner:
    """The runner of workers' tools. A call waits in the ledger, and a worker comes for it (`engine/requests.py`)."""

    waits_for_claim = has_foreign_schemas = True
    can_ask = takes_meta = False
    place = "at a worker"

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        return run.tool.code.invoke(arguments, run)

    async def close(self) -> None:
        """Nothing is kept between calls."""


class Made(Struct, frozen=True):
    """What a tool was made of: whose it is and by which definition, for whom, and how far its workers are trusted."""

    offer: str
    tenants: tuple[str, ...] | None
    is_trusted: bool
    is_named: bool


class OfferedTool(Struct):
    """A tool of one worker, or of several that agree on it. It is trusted as far as the least of them."""

    definition: ToolDefinition
    encoded: bytes
    worker: str
    owner: Owner
    is_trusted: bool = True
    is_named: bool = True
    tenants: set[str] = field(default_factory=set)
    is_everybodys: bool = False

    def add(self, tenant: str, subject: str, rule: WorkerRule) -> None:
        self.tenants |= {tenant, *(rule.other_tenants or ())}
        self.is_everybodys |= rule.other_tenants is None
        self.is_trusted &= rule.trusted
        self.is_named &= rule.trusted or rule.names(tenant, subject, self.definition.id)

    @property
    def _whose(self) -> tuple[str, ...] | None:
        return None if self.is_everybodys else tuple(sorted(self.tenants))

    @property
    def _offer(self) -> str:
        return offer_of(_reference(self.definition), self.owner, self.encoded)

    def made(self) -> Made:
        return Made(self._offer, self._whose, self.is_trusted, self.is_named)

    def tool(self) -> Tool:
        trust = {"is_trusted": self.is_trusted, "is_named": self.is_named}
        return replace(tool_of(self.definition, self.worker, self._whose, **trust), offer=self._offer)


class Offered(Struct, frozen=True):
    """A definition of a worker's row, with what is asked of it again and again."""

    reference: str
    definition: ToolDefinition
    encoded: bytes


class Row(Struct, frozen=True):
    """A worker's row, read once for as long as it stays as it is."""

    tools: bytes
    offered: tuple[Offered, ...]


class ReadyTool(Struct, frozen=True):
    """A worker's tool that can be served, what it was made of, and the plan by which it is called."""

    made: Made
    tool: Tool
    plan: Plan


class Found(Struct):
    """What the rows of all workers say, taken together: which tools are offered, by whom, and what is refused."""

    rows: dict[Place, Row]
    offers: dict[str, OfferedTool] = field(default_factory=dict)
    """By reference."""
    serves: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By caller: the references."""
    offerers: dict[str, set[Place]] = field(default_factory=dict)
    owners: dict[str, Owner] = field(default_factory=dict)
    """By the tool's id."""
    refused: dict[tuple[Place, str], str] = field(default_factory=dict)
    """By worker and reference: why it is not served."""


class Own:
    """The names of the server's own tools, which no worker may take. Its toolkits are its own whole: rules and secrets
    name them by patterns, and people take what is called like them for theirs."""

    def __init__(self, tools: Iterable[Tool], toolkits: Iterable[str] = ()) -> None:
        """`toolkits` are the server's own whether or not it has a tool of them now."""
        self._toolkits, self._names = Counter(name.casefold() for name in toolkits), Counter[str]()
        self.revision = 0
        self._count(tools, 1)

    def follow(self, added: Iterable[Tool], removed: Iterable[Tool]) -> None:
        self._count(added, 1)
        self._count(removed, -1)

    def objection(self, definition: ToolDefinition) -> str | None:
        """Why a worker must not offer this. However it is written: what differs in nothing but its capitals, or reads
        the same on the wires, is taken for the same."""
        return self.objection_to(definition.id, _wire_name(definition))

    def objection_to(self, id: str, name: str) -> str | None:
        """`name` is what it is called on the wires."""
        toolkit = id.partition(".")[0]
        if self._toolkits[toolkit.casefold()] > 0:
            return f"{id}: {toolkit} is a toolkit of the server itself; choose another name for the toolkit"
        for each in names_of(id, name):
            if self._names[each.casefold()] > 0:
                return f"{id}: the name {each} is that of a tool of the server itself; choose another"
        for mark in _MARKS(name):
            if self._toolkits[(begins := name[: mark.start()]).casefold()] > 0:
                return f"{id}: the name {name} reads like one of the server's toolkit {begins}; choose another"
        return None

    def _count(self, tools: Iterable[Tool], by: int) -> None:
        for tool in tools:
            self._toolkits[tool.toolkit.name.casefold()] += by
            self._names.update({name.casefold(): by for name in tool.names})
            self.revision += 1


class OfferLimits(Struct, frozen=True):
    """How many tools a worker may offer, and all workers of a caller together."""

    per_worker: int = 1000
    per_caller: int = 2000


class WorkerTools:
    """The tools that workers offer, and who offers which. Whatever strangers' definitions cost is paid in a thread, a
    definition once; the catalogue is changed once for all that came and went."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        engine: Engine,
        rules: WorkerRules,
        lock: ToolLock,
        quotas: Quotas,
        check: Callable[[Tool], None] = lambda tool: None,
        bounds: OfferLimits = OfferLimits(),  # noqa: B008  (nobody changes it)
        toolkits: Iterable[str] = (),
    ) -> None:
        """`check` raises DefinitionError for a tool that some wire cannot tell of. `toolkits` are names that no worker
        may take, though no tool has them yet."""
        self._store, self._catalogue, self._engine, self._rules = store, catalogue, engine, rules
        self._quotas = quotas
        self._approvals, self._check, self._bounds = WorkerLock(lock), check, bounds
        self._own = Own(catalogue.all(), toolkits)
        self._theirs: set[Tool] = set()
        """Those in the catalogue that workers offer, or that are about to come there."""
        catalogue.subscribe(self._follow_own)
        self._changing = asyncio.Lock()
        self._checking = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By caller: one registration of a caller is looked at after the other."""
        self._seen: object = None
        """What the catalogue agrees with."""
        self._found = Found({})
        self._offered: dict[str, ReadyTool] = {}
        """By reference."""
        self._unservable: dict[str, Made] = {}
        """By reference: what was tried in vain, so that it is not tried again."""
        self._serves: dict[tuple[str, str], list[Tool]] = {}
        """By caller: what its workers offer, and is served."""
        self._seen_by: dict[tuple[str, str, View], frozenset[str]] = {}
        """By caller and what its credentials see: the offers among these."""
        self._anew: list[str] = []
        """Offers that came and have not been held against the calls that wait."""

    def who(self, caller: Caller, worker: str = "") -> Claimant:
        """A caller as somebody who works on requests. Credentials that do not see a tool are not for its calls."""
        rule = self._rules.of(caller.tenant, caller.subject)
        others = frozenset() if rule is None else rule.other_tenants
        return Claimant(caller.tenant, caller.subject, worker, self._serving(caller), others)

    def _serving(self, caller: Caller) -> frozenset[str]:
        which = (caller.tenant, caller.subject, caller.view)
        known = self._seen_by.get(which)
        if known is None:
            if len(self._seen_by) >= MOST_LIMITED:
                self._seen_by.clear()
            tools = self._serves.get((caller.tenant, caller.subject), ())
            known = frozenset(tool.offer for tool in tools if tool.offer is not None and caller.view.sees(tool))
            self._seen_by[which] = known
        return known

    def may_be_given(self, who: Claimant, tool: Tool) -> bool:
        """Whether somebody who claimed a call of a tool may have what is kept here for it. Asked of the one who will
        read it: what the tool may have depends on who offers it at the moment, and that may have been others when the
        call was claimed."""
        rule = self._rules.of(who.tenant, who.subject)
        if rule is None or rule.trusted or not tool.gets_what_is_kept:
            return rule is not None
        return not tool.is_trusted and rule.names(who.tenant, who.subject, tool.id)

    def at(self, reference: str) -> list[Place]:
        """The workers that offer a tool, as (tenant, subject, name)."""
        return sorted(self._found.offerers.get(reference, ()))

    async def register(self, caller: Caller, name: str, definitions: Sequence[ToolDefinition]) -> None:
        """All of them or none, and none that could not be served. Raises InvalidInput, Refused for a tool that is
        somebody else's or not as it was approved, Forbidden for one that this caller's workers may not offer, and
        LimitReached."""
        rule = self._rules.of(caller.tenant, caller.subject)
        for definition in definitions:
            if rule is None or not rule.lets(definition.id):
                raise Forbidden(f"Workers of this caller may not offer {definition.id}")
        place = (caller.tenant, caller.subject, name)
        sizes = await asyncio.to_thread(_sizes, definitions)
        self._refuse_many(place, sizes)
        _refuse_twice(definitions)
        ready = await self._looked_at(place, definitions)
        for each in ready.values():
            if not caller.view.sees(each.tool):
                raise Forbidden(f"These credentials are not for {each.tool.id}")
        async with self._changing:
            await self._sync()
            if not self._sees_all_of(caller, name):
                raise Forbidden(f"A worker named {name} offers tools that these credentials are not for")
            self._refuse_many(place, sizes)
            await asyncio.to_thread(self._refuse_taken, place, definitions)
            await self._quotas.open("workers", caller, besides=name)
            tools = await asyncio.to_thread(_encode, list(definitions))
            await self._store.put_worker(WorkerRecord(*place, tools))
            await self._sync(ready)

    async def beat(self, caller: Caller, name: str) -> None:
        is_theirs = self._sees_all_of(caller, name)
        if not is_theirs or not await self._store.beat_worker(caller.tenant, caller.subject, name):
            raise PathNotFound("There is no such worker; register it first")

    async def drop(self, caller: Caller, name: str) -> None:
        await self.sync()  # another node may know what it offers
        is_theirs = self._sees_all_of(caller, name)
        if not is_theirs or not await self._store.drop_worker(caller.tenant, caller.subject, name):
            raise PathNotFound("There is no such worker")
        await self.sync()

    def _sees_all_of(self, caller: Caller, name: str) -> bool:
        """Whether credentials are for all that a worker of their caller offers. Otherwise it is not theirs to keep or
        to send away."""
        row = self._found.rows.get((caller.tenant, caller.subject, name))
        tools = (self._offered.get(each.reference) for each in row.offered) if row else ()
        return all(caller.view.sees(each.tool) for each in tools if each is not None)

    async def sync(self) -> None:
        """Makes the catalogue agree with the ledger. A row that nobody can read, or a tool that cannot be served,
        whoever wrote it, is left out and said to be in the log; it keeps nobody else from being served."""
        async with self._changing:
            await self._sync()

    async def follow(self) -> None:
        """Syncs whenever something changes. Until cancelled."""
        with self._store.hints.waiting(Topic.WORKERS) as bell:
            while True:
                await bell.wait(LOOK_AGAIN_S)
                with suppress(StoreDown, Busy):
                    await self.sync()

    def make_way(self, own: Iterable[Tool]) -> None:
        """For tools that the server itself comes to have: what workers offer under their names is not served any more.
        Nobody who was there first keeps an author from adding a tool."""
        coming = Own(own)
        stale = [ref for ref, each in self._offered.items() if coming.objection_to(each.tool.id, each.tool.wire_name)]
        self._serve(stale, {})

    # -- what the ledger says ----------------------------------------------------------------------

    async def _sync(self, ready: Mapping[str, ReadyTool] = MappingProxyType({})) -> None:
        """`ready` are tools that were made already. Whoever calls this holds the lock."""
        workers = await self._store.workers()
        seen = ([(_place(each), each.tools) for each in workers], self._approvals.revision(), self._own.revision)
        if seen == self._seen:
            await self._end_superseded()
            return
        found = await asyncio.to_thread(self._agreed, workers)
        new = {reference: offer for reference, offer in found.offers.items() if self._is_new(reference, offer)}
        await self._leave_out(new, ready, found)
        made = await asyncio.to_thread(self._made, new, ready) if new else {}
        stale = [ref for ref in self._offered if ref not in found.offers or ref in new]
        self._unservable = {ref: each for ref, each in self._unservable.items() if ref in found.offers}
        self._tell_refused(found)
        self._serve(stale, made)
        self._found = found
        self._serves = {
            whose: [self._offered[reference].tool for reference in references if reference in self._offered]
            for whose, references in found.serves.items()
        }
        self._seen_by = {}
        self._anew += [each.made.offer for each in made.values()]
        self._seen = seen
        await self._end_superseded()

    async def _end_superseded(self) -> None:
        """Ends the calls that wait for tools which their owners have offered anew since, as something else. Nobody
        agreed to that, and nobody knows whether their input still fits."""
        while self._anew:
            calls = await self._store.superseded(self._anew, AT_ONCE_SUPERSEDED)
            for call in calls:
                effects = "none" if call.attempt == 0 else "unknown"
                ending = ended_by(Move.ABANDON, OFFERED_ANEW.format(tool=call.reference), effects)
                if call.waiting_for is None:
                    hold = WaitForAccount(call.seq, call.attempt, WaitingFor.AUTHORIZATION, 0.0, ending)
                    await self._store.hold(hold)
                else:
                    await self._store.release_wait(Decision(call.seq, call.waiting_for, ending))
            if len(calls) < AT_ONCE_SUPERSEDED:
                self._anew = []

    async def _leave_out(self, new: dict[str, OfferedTool], ready: Mapping[str, ReadyTool], found: Found) -> None:
        """Takes out what cannot be checked, whoever wrote it to the ledger. Raises Busy."""
        for reference, offer in [*new.items()]:
            whose = min(found.offerers[reference])[:2]
            try:
                if reference not in ready:
                    await self._prove(offer.definition, whose)
            except ValueError as error:
                self._unservable[reference] = new.pop(reference).made()
                _tell_unservable(reference, error)

    async def _prove(self, definition: ToolDefinition, whose: tuple[str, str]) -> None:
        """Before anything else walks through its schemas. Raises ValueError with the reason, and Busy."""
        try:
            await self._engine.plans.sandbox.prove(definition.input_schema, whose)
            await self._engine.plans.sandbox.prove(definition.output_schema or {}, whose)
        except ValueError as error:
            raise ValueError(f"{definition.id} has a schema that cannot be checked: {error}") from None

    def _is_new(self, reference: str, offer: OfferedTool) -> bool:
        there = self._offered.get(reference)
        known = self._unservable.get(reference) if there is None else there.made
        return known is None or known != offer.made()

    def _agreed(self, workers: Sequence[WorkerRecord]) -> Found:
        """In a thread."""
        found = Found({_place(worker): self._row(worker) for worker in workers})
        found.owners = self._owners_among(found.rows)
        for place, row in found.rows.items():
            rule = self._rules.of(*place[:2])
            if rule is None:
                continue
            for each in row.offered:
                why = self._objection(place, each, rule, found)
                if why is not None:
                    found.refused[place, each.reference] = why
                    continue
                offer = found.offers.get(each.reference)
                if offer is None:
                    owner = found.owners[each.definition.id]
                    offer = OfferedTool(each.definition, each.encoded, place[2], owner)
                    found.offers[each.reference] = offer
                offer.add(place[0], place[1], rule)
                found.serves.setdefault(place[:2], set()).add(each.reference)
                found.offerers.setdefault(each.reference, set()).add(place)
        return found

    def _row(self, worker: WorkerRecord) -> Row:
        known = self._found.rows.get(_place(worker))
        if known is not None and known.tools == worker.tools:
            return known
        try:
            return Row(worker.tools, tuple(map(_offered, _decode(worker.tools))))
        except UNREADABLE as error:
            whose = f"{worker.name} of {worker.subject} ({worker.tenant})"
            _log.error("the row of the worker %s cannot be read, and none of its tools is served: %s", whose, error)
            return Row(worker.tools, ())

    def _owners_among(self, rows: Mapping[Place, Row]) -> dict[str, Owner]:
        """A tool, in all its versions, is of those whom rules trust or name for it; else of whoever has it already, or
        of the first. Others would get at its calls."""
        offering: dict[str, list[Owner]] = {}
        for place, row in rows.items():
            rule = self._rules.of(*place[:2])
            for each in row.offered:
                if rule is not None and rule.lets(each.definition.id):
                    offering.setdefault(each.definition.id, []).append(self._owner(place, each.definition.id))
        before = self._found.owners
        return {
            id: NAMED if NAMED in those else before[id] if before.get(id) in those else those[0]
            for id, those in offering.items()
        }

    def _owner(self, place: Place, id: str) -> Owner:
        """Whose a tool is that this worker offers."""
        tenant, subject, _ = place
        rule = self._rules.of(tenant, subject)
        shares = rule is not None and (rule.trusted or rule.names(tenant, subject, id))
        return NAMED if shares else (tenant, subject)

    def _objection(self, place: Place, each: Offered, rule: WorkerRule, found: Found) -> str | None:
        """Why a tool of a worker's row is not served: the rules, the server or the lock may have changed since."""
        definition = each.definition
        if not rule.lets(definition.id):
            return "its worker may not offer it"
        if found.owners[definition.id] != self._owner(place, definition.id):
            return "it is another caller's"
        first = found.offers.get(each.reference)
        if first is not None and first.encoded != each.encoded:
            return "another worker offers it with another definition"
        return self._own.objection(definition) or self._unapproved(each)

    def _unapproved(self, each: Offered) -> str | None:
        """The lock's objection. It holds what a worker says of its tool against what was approved, whether or not it
        counts."""
        made = partial(tool_of, each.definition, "", None, is_trusted=True)
        try:
            return self._approvals.objection(each.encoded, made)
        except UNREADABLE as error:
            return f"it cannot be held against the lock: {error}"

    def _tell_refused(self, found: Found) -> None:
        """Once, and not each time that somebody looks."""
        for (place, reference), why in found.refused.items():
            if self._found.refused.get((place, reference)) != why:
                _log.warning("%s of the worker %s is not served: %s", reference, place[2], why)

    # -- what is served ----------------------------------------------------------------------------

    async def _looked_at(self, place: Place, definitions: Sequence[ToolDefinition]) -> dict[str, ReadyTool]:
        """All that serving them takes, before anything is stored. One who offers much waits for itself alone. Raises
        InvalidInput."""
        turn = self._turns.setdefault(place[:2], asyncio.Lock())
        async with turn, self._checking:
            problems = await self._unchecked(place, definitions)
            if not problems:
                ready, problems = await asyncio.to_thread(self._tried, place, definitions)
        if problems:
            raise InvalidInput(tuple(problems[:MOST_PROBLEMS]))
        return ready

    async def _unchecked(self, place: Place, definitions: Sequence[ToolDefinition]) -> list[Problem]:
        """The schemas that cannot be checked within their bounds."""
        problems: list[Problem] = []
        for index, definition in enumerate(definitions):
            try:
                await self._prove(definition, place[:2])
            except ValueError as error:
                problems.append(Problem(f"tools[{index}]", str(error)))
                if len(problems) == MOST_PROBLEMS:
                    break
        return problems

    def _tried(self, place: Place, definitions: Sequence[ToolDefinition]) -> tuple[dict[str, ReadyTool], list[Problem]]:
        """In a thread, as `_made`."""
        rule, ready, problems = self._rules.of(*place[:2]), dict[str, ReadyTool](), list[Problem]()
        for index, definition in enumerate(definitions):
            offer = OfferedTool(definition, _encode(definition), place[2], self._owner(place, definition.id))
            if rule is not None:
                offer.add(*place[:2], rule)
            try:
                ready[_reference(definition)] = self._ready(offer)
            except DefinitionError as error:
                problems.append(Problem(f"tools[{index}]", error.message))
        return ready, problems

    def _made(self, offers: Mapping[str, OfferedTool], ready: Mapping[str, ReadyTool]) -> dict[str, ReadyTool]:
        """In a thread."""
        made: dict[str, ReadyTool] = {}
        for reference, offer in offers.items():
            there = ready.get(reference)
            try:
                made[reference] = there if there is not None and there.made == offer.made() else self._ready(offer)
            except DefinitionError as error:
                self._unservable[reference] = offer.made()
                _tell_unservable(reference, error)
        return made

    def _ready(self, offer: OfferedTool) -> ReadyTool:
        """Everything that serving a tool takes. Raises DefinitionError."""
        try:
            tool = offer.tool()
            plan = self._engine.plans.make(tool)
            self._check(tool)
            locked(tool)
            return ReadyTool(offer.made(), tool, plan)
        except UNREADABLE as error:
            place = RemoteCode(offer.worker).origin.place
            raise DefinitionError(f"{offer.definition.id} cannot be served: {_why(error)}", place) from None

    def _serve(self, stale: Sequence[str], new: Mapping[str, ReadyTool]) -> None:
        """In one change. Where something refuses it, everything but what is refused."""
        gone = [self._offered.pop(reference) for reference in stale]
        if not gone and not new:
            return
        self._theirs.update(each.tool for each in new.values())
        self._engine.plans.adopt({each.tool: each.plan for each in new.values()})
        try:
            self._catalogue.change(add=[each.tool for each in new.values()], remove=[each.tool for each in gone])
            self._offered |= new
        except DefinitionError:
            self._catalogue.change(remove=[each.tool for each in gone])
            self._add(list(new.items()))
        self._theirs.difference_update(each.tool for each in gone)
        _log.info(
            "workers offer %d tools; %d came, %d went: %s",
            len(self._offered),
            len(new),
            len(gone),
            some([*new, *stale]),
        )

    def _add(self, new: Sequence[tuple[str, ReadyTool]]) -> None:
        """Halves of them, and halves of those: what is refused is refused alone."""
        try:
            self._catalogue.change(add=[each.tool for _, each in new])
            self._offered |= dict(new)
        except DefinitionError as error:
            if len(new) > 1:
                self._add(new[: len(new) // 2])
                self._add(new[len(new) // 2 :])
                return
            for reference, each in new:
                self._engine.plans.forget(each.tool)
                self._theirs.discard(each.tool)
                _tell_unservable(reference, error)

    def _follow_own(self, change: CatalogueChange) -> None:
        self._own.follow(
            *([tool for tool in tools if tool not in self._theirs] for tools in (change.added, change.removed))
        )

    # -- what is refused ---------------------------------------------------------------------------

    def _refuse_many(self, place: Place, sizes: Mapping[str, int]) -> None:
        """Tools and bytes of them: everybody's list of tools has them all. One that several workers offer counts once.
        `sizes` are those to be offered, by reference."""
        if len(sizes) > self._bounds.per_worker:
            sentence = f"Must have at most {self._bounds.per_worker} tools; let several workers offer them"
            raise InvalidInput((Problem("tools", sentence),))
        rows = self._found.rows.items()
        others = {
            each.reference: len(each.encoded)
            for other, row in rows
            if other[:2] == place[:2] and other != place
            for each in row.offered
        }
        together = {**others, **sizes}
        for count, most, what in (
            (len(together), self._bounds.per_caller, "tools"),
            (sum(together.values()), MOST_OFFERED, "bytes of tools"),
        ):
            if count > most:
                raise Refused(
                    f"All workers of a caller together may offer {most} {what}, and with these it would be {count}; "
                    "offer fewer",
                    "too_many",
                )

    def _refuse_taken(self, place: Place, definitions: Sequence[ToolDefinition]) -> None:
        """In a thread. Raises Refused."""
        for definition in definitions:
            objection = self._own.objection(definition) or self._taken(place, definition)
            if objection is not None:
                raise Refused(objection, "conflict")
            objection = self._unapproved(_offered(definition))
            if objection is not None:
                raise Refused(objection, "locked")

    def _taken(self, place: Place, definition: ToolDefinition) -> str | None:
        reference, owner = _reference(definition), self._found.owners.get(definition.id)
        mine = self._owner(place, definition.id)
        if owner not in (None, mine) and mine != NAMED:
            return f"{definition.id} is offered by another caller; choose another name"
        offer = self._found.offers.get(reference) if owner == mine else None
        others = self._found.offerers.get(reference, set()) - {place}
        if others and offer is not None and offer.encoded != _encode(definition):
            return f"{reference} is offered by another worker with another definition; raise its version"
        for name in names_of(definition.id, _wire_name(definition)):
            named = self._catalogue.taken(name)
            if named is not None and named.id != definition.id and not self._goes_with(place, named):
                is_shown = named.tenants is None or place[0] in named.tenants
                whose = named.id if is_shown else "a tool of another caller"
                return f"{definition.id}: the name {name} is taken by {whose}; choose another"
        return None

    def _goes_with(self, place: Place, tool: Tool) -> bool:
        """Whether a tool is this worker's alone: it is in the registration that the new one takes the place of."""
        return self._found.offerers.get(tool.reference) == {place}


def offered(workers: Sequence[WorkerRecord]) -> list[ToolDefinition]:
    """Each once, by reference."""
    found: dict[str, ToolDefinition] = {}
    for worker in workers:
        try:
            found |= {each.reference: each.definition for each in map(_offered, _decode(worker.tools))}
        except UNREADABLE:
            continue  # whoever serves it has said so
    return [found[reference] for reference in sorted(found)]


def tool_of(
    definition: ToolDefinition,
    worker: str,
    tenants: tuple[str, ...] | None,
    *,
    is_trusted: bool,
    is_named: bool = False,
) -> Tool:
    """A worker's word for what its tool does counts as far as its own effects go. Hints to clients, and the tags that
    access rules look at, it may give only where it is trusted."""
    hints = ToolHints(definition.read_only, definition.idempotent, definition.destructive, definition.open_world)
    toolkit, _, name = definition.id.partition(".")
    version = Version.parse(definition.version)
    return Tool(
        toolkit=ToolkitInfo(toolkit, definition.toolkit_description, version),
        name=name,
        version=version,
        wire_name=_wire_name(definition),
        description=definition.description,
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        code=RemoteCode(worker),
        host=Host(),
        title=definition.title,
        hidden=_hidden(definition.input_schema),
        requirements=definition.requirements,
        timeout=definition.timeout,
        on_lost=cast(OnLost, definition.on_lost),
        runs="worker",
        returns_content=definition.returns_content,
        task=definition.task,
        hints=hints if is_trusted else ToolHints(),
        tags=definition.tags if is_trusted else (),
        approval="always" if definition.approval else None,
        tenants=tenants,
        is_trusted=is_trusted,
        is_named=is_named,
    )


def _hidden(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters that a model must not fill in, as OXP marks them."""
    properties = schema.get("properties")
    given = properties.items() if isinstance(properties, Mapping) else ()
    return tuple(name for name, shown in given if isinstance(shown, Mapping) and shown.get("x-non-inferrable") is True)


def _sizes(definitions: Sequence[ToolDefinition]) -> dict[str, int]:
    """By reference, in bytes. Raises InvalidInput for a definition that is too large to be listed to everybody."""
    sizes: dict[str, int] = {}
    for index, definition in enumerate(definitions):
        size = sizes[_reference(definition)] = len(_encode(definition))
        if size > LARGEST_DEFINITION:
            raise InvalidInput((Problem(f"tools[{index}]", f"Has {size} bytes, of at most {LARGEST_DEFINITION}"),))
    return sizes


def _refuse_twice(definitions: Sequence[ToolDefinition]) -> None:
    """Two tools of one name in one registration: only one of them could be called. Raises InvalidInput."""
    named: dict[str, ToolDefinition] = {}
    problems = list[Problem]()
    for index, definition in enumerate(definitions):
        for name in names_of(definition.id, _wire_name(definition)):
            other = named.setdefault(name, definition)
            if other.id != definition.id:
                sentence = f"{definition.id} and {other.id} have the same name {name}; give one of them another"
                problems.append(Problem(f"tools[{index}].name", sentence))
    if problems:
        raise InvalidInput(tuple(problems[:MOST_PROBLEMS]))


def _offered(definition: ToolDefinition) -> Offered:
    """Raises ValueError for what is no tool's id and version."""
    if not REFERENCE(f"{definition.id}@{definition.version}"):
        raise ValueError(f"{definition.id[:80]!r} with the version {definition.version[:80]!r} is no tool")
    return Offered(_reference(definition), definition, _encode(definition))


def _wire_name(definition: ToolDefinition) -> str:
    return definition.wire_name or definition.id.replace(".", "_", 1)


def _reference(definition: ToolDefinition) -> str:
    return f"{definition.id}@{Version.parse(definition.version)}"


def _place(worker: WorkerRecord) -> Place:
    return worker.tenant, worker.subject, worker.name


def _why(error: BaseException) -> str:
    if isinstance(error, DefinitionError):
        return error.message
    return (
        "its definition is nested, or refers to itself, too deeply" if isinstance(error, RecursionError) else str(error)
    )


def _tell_unservable(reference: str, error: Exception) -> None:
    _log.error("%s is offered by a worker and cannot be served: %s", reference, error)


def some(names: Sequence[str]) -> str:
    """The first of them, for logs: there may be many."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
