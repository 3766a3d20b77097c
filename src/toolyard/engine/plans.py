"""What the engine works out before calls come: how long things may take, and for each tool its plan. A call only looks
these up, which is what makes it cheap."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw, Struct

from ..catalogue import Catalogue, CatalogueChange
from ..model.errors import ToolError, ToolNotFound
from ..model.run import RichResult, Run, Runner
from ..model.tool import Tool
from ..runners.attempt import AttemptBounds, Recipe, ResultTurn, ResultTurns, hidden, recipe_of, too_large
from ..runners.result import from_json
from ..runners.sandbox import Sandbox, Whose
from ..runners.validation import compile_schema
from ..store.contract import Store
from ..trust.approvals.rules import ApprovalRules
from .concurrency import Slots

ANYTHING: dict[str, Any] = {}
"""The output schema of a tool that promises nothing about its result."""
NOTHING = {"type": "null"}
"""The output schema of a tool that has none."""
_log = logging.getLogger("toolyard.engine")


class Timeouts(Struct, frozen=True):
    """How long things may take, unless a tool says otherwise, and how much of them there may be."""

    run_s: float = 300.0
    """A run that does not say how far it is."""
    queue_s: float = 10.0
    """The wait for one of a tool's concurrent runs to end."""
    claim_s: float = 3600.0
    """The wait of a call until somebody elsewhere claims it."""
    total_s: float = 86400.0
    """A call in all, whatever it says."""
    sync_wait_s: float = 25.0
    """A client's wait for its answer; then it is told to come back."""
    answer_s: float = 3600.0
    """The wait for the answer to a question."""
    most_waiting: int = 1000
    """How many calls of a tool may wait for a concurrent run to end."""
    show_exceptions: bool = False
    result_bytes: int = 32 * 2**20


class Plan(Struct, frozen=True):
    """How a tool is called: its validators, its runner's recipe, and what its calls pass on their way. Worked out once,
    when the tool comes into the catalogue."""

    bind: Callable[[Any], dict[str, Any]]
    input_check: Any
    """None where the sandbox checks the input."""
    accepts: Callable[[Any], bool]
    recipe: Recipe
    slots: Slots | None
    has_requirements: bool
    has_accounts: bool
    """Whether a call of it needs an account of its user."""
    has_foreign_schemas: bool
    """Whether the sandbox checks input and results."""
    needs_filling: bool
    """Whether a call has to wait for something before it can be checked: for what is kept here for it, or for the
    sandbox."""
    may_need_approval: bool
    """Whether a call of it may have to wait for a person."""
    is_durable: bool
    """Whether a call is recorded before it runs even without a key: it may wait for a worker, or for a person."""
    looks_first: bool
    """Whether a call is looked up in the ledger before it is prepared: the author's code, or something that takes its
    time, would run for nothing where the call is known. (For others that is one look less: `begin` finds it.)"""


class PlanTable(dict[Tool, Plan]):
    """The plan of each tool that there is. A worker may go between two steps of a call of its tool: then the call is
    told what it would have been told a moment later."""

    def __missing__(self, tool: Tool) -> Plan:
        raise ToolNotFound(f"Tool '{tool.wire_name}' was not found", developer_message="it was removed just now")


class ToolPlans:
    """Makes a plan for each tool that comes into the catalogue, and keeps it while the tool is there."""

    def __init__(
        self,
        catalogue: Catalogue,
        runners: dict[str, Runner],
        approvals: ApprovalRules,
        limits: Timeouts,
        store: Store,
        sandbox: Sandbox,
        turns: ResultTurns | None = None,
    ) -> None:
        """`runners` are by the names that tools have for them (`Tool.runs`); `turns` is None where large results wait
        for nobody."""
        self.catalogue, self.limits, self.sandbox = catalogue, limits, sandbox
        self._runners, self._approvals, self._store, self._turns = runners, approvals, store, turns
        self.bounds = AttemptBounds(limits.run_s, limits.total_s, limits.show_exceptions, limits.result_bytes)
        self.by_tool = PlanTable()
        self._follow(CatalogueChange(tuple(catalogue.all()), ()))
        catalogue.subscribe(self._follow)

    def adopt(self, plans: Mapping[Tool, Plan]) -> None:
        """Of tools that are about to come into the catalogue: then nothing has to be worked out when they do."""
        self.by_tool.update(plans)

    def forget(self, tool: Tool) -> None:
        """One that did not come after all."""
        self.by_tool.pop(tool, None)

    def _follow(self, change: CatalogueChange) -> None:
        """A plan for each tool that came and has none. Raises DefinitionError for a schema that cannot be checked."""
        self.by_tool.update({tool: self.make(tool) for tool in change.added if tool not in self.by_tool})
        for tool in change.removed:
            self.by_tool.pop(tool, None)

    def looks_first(self, tool: Tool) -> bool:
        """Whether a call with a key is looked up in the ledger before it is prepared."""
        return self.by_tool[tool].looks_first

    def needs_filling(self, tool: Tool) -> bool:
        """Whether `prepare` waits for others, and may take its time."""
        return self.by_tool[tool].needs_filling

    def waits_for_claim(self, tool: Tool) -> bool:
        """Whether calls of it wait in the ledger for a worker."""
        return self._runners[tool.runs].waits_for_claim

    def can_ask(self, tool: Tool) -> bool:
        """Whether it can put questions to its client while it runs."""
        return self._runners[tool.runs].can_ask

    def takes_meta(self, tool: Tool) -> bool:
        """Whether clients may say something to whoever runs it elsewhere."""
        return self._runners[tool.runs].takes_meta

    def place_of(self, tool: Tool) -> str:
        """Where it runs, in words for people."""
        return self._runners[tool.runs].place

    def too_large(self, name: str, value: Raw) -> ToolError | None:
        """What is wrong with the size of a result that came from elsewhere."""
        most = self.bounds.result_bytes
        return too_large(name, len(value), most) if len(value) > most else None

    async def check_result(self, tool: Tool, value: Any, whose: Whose) -> ToolError | None:
        """What is wrong with a result that came from elsewhere."""
        schema = NOTHING if tool.output_schema is None else tool.output_schema
        problems = await self.sandbox.check(schema, value, whose)
        if not problems:
            return None
        where = f"{problems[0].path or 'the result'}: {problems[0].sentence}"
        _log.error("%s gave a result that breaks its output schema at %s", tool.reference, where)
        return hidden(self.bounds, tool, f"the result breaks the output schema at {where}")

    def make(self, tool: Tool) -> Plan:
        """From any thread: a large schema takes a while. Raises DefinitionError for one that cannot be checked."""
        runner = self._runners[tool.runs]
        is_foreign = runner.has_foreign_schemas
        input_check = None if is_foreign else compile_schema(tool.input_schema, tool)
        may_need_approval = self._approvals.may_be_needed(tool)
        needs_filling = is_foreign or bool(tool.requirements)
        slots = self._slots_of(tool, tool.concurrency) if tool.concurrency else None
        turns = self._turns if slots is None or self._turns is None else _OutsideSlots(self._turns, slots)
        return Plan(
            bind=tool.code.bind,
            input_check=input_check,
            accepts=_no_value if input_check is None else input_check.is_valid,
            recipe=self._sandboxed(tool, runner, turns) if is_foreign else recipe_of(tool, runner, self.bounds, turns),
            slots=slots,
            has_requirements=bool(tool.requirements),
            has_accounts=bool(tool.requirements.authorization),
            has_foreign_schemas=is_foreign,
            needs_filling=needs_filling,
            may_need_approval=may_need_approval,
            is_durable=may_need_approval or runner.waits_for_claim,
            looks_first=may_need_approval or needs_filling or tool.code.has_validators,
        )

    def _sandboxed(self, tool: Tool, runner: Runner, turns: ResultTurns | None) -> Recipe:
        """A recipe whose result is checked as part of its run, because no validator of this process may do it."""

        async def run_checked(arguments: dict[str, Any], run: Run) -> Any:
            value = await runner.run(arguments, run)
            if tool.output_schema == ANYTHING:
                return value
            plain = value.value if type(value) is RichResult else value
            plain = from_json(plain) if type(plain) is Raw else plain
            broken = await self.check_result(tool, plain, (run.caller.tenant, run.caller.subject))
            if broken is not None:
                raise broken
            return value

        return Recipe(run_checked, None, _any_value, tool.timeout or self.bounds.silent_s, self.bounds, turns)

    def _slots_of(self, tool: Tool, size: int) -> Slots:
        shared = self._store if self._store.shared else None
        return Slots(tool, size, self.limits.queue_s, self.limits.most_waiting, shared)


class _OutsideSlots:
    """The turns of results whose tool has a few runs at once (`ResultTurns`): a result that waits for its turn, or for
    its caller's clients to read, is no run any more."""

    def __init__(self, turns: ResultTurns, slots: Slots) -> None:
        self._turns, self._slots = turns, slots
        self.may_be_large = turns.may_be_large

    async def turn(self, run: Run) -> ResultTurn:
        self._slots.end_run()
        return await self._turns.turn(run)


def _no_value(value: Any) -> bool:
    """Input that the sandbox has to check first: `_checked` reads what it found."""
    return False


def _any_value(value: Any) -> bool:
    """A result that the sandbox has checked already."""
    return True
