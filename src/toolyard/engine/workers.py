"""Tools that workers offer: in the catalogue, on every node, for as long as a worker that has them lives.

The ledger knows the workers; each node reads them when it is told to, and makes its catalogue agree.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from ..catalogue import Catalogue
from ..model.caller import Caller
from ..model.errors import DefinitionError, Forbidden, InternalError, InvalidInput, PathNotFound, Problem, Refused
from ..model.request import Definition
from ..model.running import Host, Origin, Run
from ..model.session import Worker
from ..model.standing import Who
from ..model.tool import Hints, OnLost, Tool, ToolkitInfo, Version
from ..running.sandbox import Sandbox
from ..store.contract import Store, StoreDown
from ..store.hints import Topic
from ..trust.rules import WorkerRule, WorkerRules
from .approvals import Approval, Approvals

LOOK_AGAIN_S = 2.0
_log = logging.getLogger("toolyard.workers")
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(list[Definition]).decode


class RemoteCode:
    """A tool's function is at its workers. Here its input is passed on as it is."""

    is_async = True

    def __init__(self, worker: str) -> None:
        self.origin = Origin("", f"worker {worker}", 0)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        return dict(input)

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        raise InternalError(f"{run.tool.id} runs at its workers")

    def dump(self, value: Any) -> Any:
        return value


class Elsewhere:
    """The runner of tools that are not run here."""

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        return run.tool.code.invoke(arguments, run)


class Made(Struct, frozen=True):
    """What a tool was made of: its definition as JSON, for whom it is, and whether its worker's word counts."""

    definition: bytes
    tenants: tuple[str, ...] | None
    is_trusted: bool


class Offer(Struct):
    """A tool of one worker, or of several that agree on it."""

    definition: Definition
    worker: str
    is_trusted: bool
    tenants: set[str] = field(default_factory=set)
    is_everybodys: bool = False

    def add(self, tenant: str, rule: WorkerRule) -> None:
        self.tenants |= {tenant, *(rule.houses or ())}
        self.is_everybodys |= rule.houses is None
        self.is_trusted &= rule.trusted

    @property
    def _whose(self) -> tuple[str, ...] | None:
        return None if self.is_everybodys else tuple(sorted(self.tenants))

    def made(self) -> Made:
        return Made(_encode(self.definition), self._whose, self.is_trusted)

    def tool(self) -> Tool:
        return tool_of(self.definition, self.worker, self._whose, is_trusted=self.is_trusted)


class WorkerTools:
    """Who offers what."""

    def __init__(
        self, store: Store, catalogue: Catalogue, rules: WorkerRules, lock: Approval, sandbox: Sandbox
    ) -> None:
        self._store, self._catalogue, self._rules, self._sandbox = store, catalogue, rules, sandbox
        self._approvals = Approvals(lock)
        self._own = {tool.id for tool in catalogue.all()}
        self._offered: dict[str, tuple[Made, Tool]] = {}
        """By reference: what was offered, and the tool made of it."""
        self._served: dict[tuple[str, str], frozenset[str]] = {}
        self._offerers: dict[str, set[tuple[str, str, str]]] = {}
        """By reference: the workers that offer it."""
        self._owners: dict[str, tuple[str, str]] = {}
        """By id: whose tool it is, while somebody offers it."""

    def who(self, caller: Caller, worker: str = "") -> Who:
        """A caller as somebody who works on requests."""
        serves = self._served.get((caller.tenant, caller.subject), frozenset())
        rule = self._rules.of(caller.tenant, caller.subject)
        return Who(caller.tenant, caller.subject, worker, serves, frozenset() if rule is None else rule.houses)

    def at(self, reference: str) -> list[tuple[str, str, str]]:
        """The workers that offer a tool, as (tenant, subject, name)."""
        return sorted(self._offerers.get(reference, ()))

    async def register(self, caller: Caller, name: str, definitions: Sequence[Definition]) -> None:
        """All of them or none. Raises InvalidInput, Refused for a tool that is somebody else's or not as it was
        approved, and Forbidden for one that this caller's workers may not offer."""
        rule = self._rules.of(caller.tenant, caller.subject)
        for definition in definitions:
            if rule is None or not rule.lets(definition.id):
                raise Forbidden(f"Workers of this caller may not offer {definition.id}")
        await self.sync()
        for index, definition in enumerate(definitions):
            await self._check(f"tools[{index}]", definition, (caller.tenant, caller.subject, name))
        await self._store.put_worker(Worker(caller.tenant, caller.subject, name, _encode(list(definitions))))
        await self.sync()

    async def beat(self, caller: Caller, name: str) -> None:
        if not await self._store.beat_worker(caller.tenant, caller.subject, name):
            raise PathNotFound("There is no such worker; register it first")

    async def drop(self, caller: Caller, name: str) -> None:
        if not await self._store.drop_worker(caller.tenant, caller.subject, name):
            raise PathNotFound("There is no such worker")
        await self.sync()

    async def sync(self) -> None:
        """Makes the catalogue agree with the ledger."""
        workers = await self._store.workers()
        self._owners = owners = self._owners_among(workers)
        wanted: dict[str, Offer] = {}
        served: dict[tuple[str, str], set[str]] = {}
        self._offerers = offerers = dict[str, set[tuple[str, str, str]]]()
        for worker in workers:
            rule = self._rules.of(worker.tenant, worker.subject)
            for definition in _decode(worker.tools):
                if rule is None or not rule.lets(definition.id):
                    continue
                if not self._rules.are_given and owners[definition.id] != (worker.tenant, worker.subject):
                    continue
                if self._objection(definition) is not None:
                    continue
                reference = _reference(definition)
                offer = wanted.setdefault(reference, Offer(definition, worker.name, rule.trusted))
                offer.add(worker.tenant, rule)
                served.setdefault((worker.tenant, worker.subject), set()).add(reference)
                offerers.setdefault(reference, set()).add((worker.tenant, worker.subject, worker.name))
        self._served = {whose: frozenset(references) for whose, references in served.items()}
        gone = [ref for ref, (made, _) in self._offered.items() if ref not in wanted or wanted[ref].made() != made]
        self._remove(gone)
        for reference, offer in wanted.items():
            if reference not in self._offered and offer.definition.id not in self._own:
                self._add(reference, offer.made(), offer.tool())

    def _owners_among(self, workers: Sequence[Worker]) -> dict[str, tuple[str, str]]:
        """Where no rules say who offers what, a tool, in all its versions, is of whoever has it already, or else of
        the first; others would get at its calls."""
        offering: dict[str, list[tuple[str, str]]] = {}
        for worker in workers:
            for definition in _decode(worker.tools):
                offering.setdefault(definition.id, []).append((worker.tenant, worker.subject))
        before = self._owners
        return {id: before[id] if before.get(id) in those else those[0] for id, those in offering.items()}

    async def follow(self) -> None:
        """Syncs whenever something changes. Until cancelled."""
        with self._store.hints.waiting(Topic.WORKERS) as bell:
            while True:
                await bell.wait(LOOK_AGAIN_S)
                with suppress(StoreDown):
                    await self.sync()

    async def _check(self, path: str, definition: Definition, worker: tuple[str, str, str]) -> None:
        if definition.id in self._own:
            raise Refused(f"{definition.id} is a tool of the server itself; a worker cannot offer it", "conflict")
        offered = self._offered.get(_reference(definition))
        owner = self._owners.get(definition.id)
        if not self._rules.are_given and owner not in (None, worker[:2]):
            raise Refused(f"{definition.id} is offered by another caller; choose another name", "conflict")
        others = self._offerers.get(_reference(definition), set()) - {worker}
        if others and offered is not None and offered[0].definition != _encode(definition):
            raise Refused(
                f"{_reference(definition)} is offered by another worker with another definition; raise its version",
                "conflict",
            )
        tool = Offer(definition, worker[2], is_trusted=False).tool()
        named = self._catalogue.named(tool.wire_name)
        if named is not None and named.id != tool.id:
            raise Refused(f"the name {tool.wire_name} is taken by {named.id}", "conflict")
        try:
            await self._sandbox.prove(tool.input_schema, worker[:2])
            await self._sandbox.prove(tool.output_schema or {}, worker[:2])
        except ValueError as error:
            sentence = f"{tool.id} has a schema that cannot be checked: {error}"
            raise InvalidInput((Problem(path, sentence),)) from None
        objection = self._objection(definition)
        if objection is not None:
            raise Refused(objection, "locked")

    def _objection(self, definition: Definition) -> str | None:
        """Of the lock. It holds what a worker says of its tool against what was approved, whether or not it counts."""
        return self._approvals.objection(definition, lambda: tool_of(definition, "", None, is_trusted=True))

    def _add(self, reference: str, made: Made, tool: Tool) -> None:
        try:
            self._catalogue.add(tool)
        except DefinitionError as error:
            _log.warning("%s is offered by a worker and cannot be served: %s", reference, error)
            return
        self._offered[reference] = (made, tool)
        _log.info("%s is offered by a worker", reference)

    def _remove(self, references: Sequence[str]) -> None:
        if references:
            self._catalogue.remove(*(self._offered.pop(reference)[1] for reference in references))
            _log.info("%s: no worker offers it any more", ", ".join(references))


def offered(workers: Sequence[Worker]) -> list[Definition]:
    """Each once, by reference."""
    found = {_reference(definition): definition for worker in workers for definition in _decode(worker.tools)}
    return [found[reference] for reference in sorted(found)]


def tool_of(definition: Definition, worker: str, tenants: tuple[str, ...] | None, *, is_trusted: bool) -> Tool:
    """A worker's word for what its tool does counts as far as its own effects go. Hints to clients, and the tags that
    access rules look at, it may give only where it is trusted."""
    hints = Hints(definition.read_only, definition.idempotent, definition.destructive, definition.open_world)
    toolkit, _, name = definition.id.partition(".")
    version = Version.parse(definition.version)
    return Tool(
        toolkit=ToolkitInfo(toolkit, definition.toolkit_description, version),
        name=name,
        version=version,
        wire_name=definition.wire_name or f"{toolkit}_{name}",
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
        hints=hints if is_trusted else Hints(),
        tags=definition.tags if is_trusted else (),
        approval="always" if definition.approval else None,
        tenants=tenants,
        is_trusted=is_trusted,
    )


def _hidden(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters that a model must not fill in, as OXP marks them."""
    properties = schema.get("properties")
    given = properties.items() if isinstance(properties, Mapping) else ()
    return tuple(name for name, shown in given if isinstance(shown, Mapping) and shown.get("x-non-inferrable") is True)


def _reference(definition: Definition) -> str:
    return f"{definition.id}@{Version.parse(definition.version)}"
