"""The engine and what stands around it, over a ledger in memory and a clock that the test owns. No server, no wire."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tests.store.ledgers import ManualClock
from toolyard.catalogue import Catalogue
from toolyard.engine.account_wait import AccountNeeds, AccountQuestions, AccountWaits
from toolyard.engine.approvals import Approvals
from toolyard.engine.durable import DurableCalls
from toolyard.engine.engine import Engine
from toolyard.engine.node import Node
from toolyard.engine.plans import Timeouts, ToolPlans
from toolyard.engine.questions import Questions
from toolyard.engine.requests import Requests
from toolyard.engine.restarts import Restarts
from toolyard.engine.sessions import Sessions
from toolyard.engine.worker_context import WorkerContexts
from toolyard.engine.worker_tools import WorkerRunner, WorkerTools
from toolyard.model.call import CallContext, CallTool, Outcome
from toolyard.model.caller import Caller, CurrentView, View
from toolyard.model.channel import Asks, Channel, Question, QuietChannel
from toolyard.model.errors import Unavailable
from toolyard.model.record import CallRecord
from toolyard.model.run import Runner, Source
from toolyard.model.tool import Authorization, Tool
from toolyard.model.worker import ToolDefinition
from toolyard.model.writes import Claimant, LeaseTerms
from toolyard.runners.attempt import ResultTurns
from toolyard.runners.inline import Inline
from toolyard.runners.sandbox import Sandbox
from toolyard.runners.threads import Threads
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import Filter, Retention
from toolyard.trust.access.worker_rules import WorkerRule, WorkerRules
from toolyard.trust.approvals.links import ApprovalLinks
from toolyard.trust.approvals.rules import ApprovalRules
from toolyard.trust.limits.limits import Limit, Limiter
from toolyard.trust.limits.quotas import Quotas, quotas_of
from toolyard.trust.requirements.requirements import RequirementResolver
from toolyard.trust.sealing.fingerprints import Fingerprints
from toolyard.trust.sealing.ring import KeyRing

T = TypeVar("T")


class Limited(View):
    """The first limit, where there is one, is about the caller."""

    limits = (0,)


ADA, BOB = (
    Caller("default", "ada", current=CurrentView(Limited())),
    Caller("default", "bob", current=CurrentView(Limited())),
)
ROBOT = Caller("default", "robot")
"""Who has workers."""
URL = "http://yard"
TRUSTED = WorkerRule(trusted=True)


class Setting(Struct, frozen=True):
    """What a test wants otherwise than usual."""

    timeouts: Timeouts = Timeouts()
    limits: tuple[Limit, ...] = ()
    quotas: dict[str, dict[str, int | None]] = {}
    workers: tuple[WorkerRule, ...] = ()
    max_attempts: int = 3
    approval_wait_s: float = 600.0
    turns: ResultTurns | None = None


class Unlocked:
    """A lock that lets everything be served."""

    def revision(self) -> int:
        return 0

    def objection(self, tool: Tool, by: str) -> str | None:
        return None


class Kept:
    """What is kept for callers: users' tokens by (user, provider), and secrets."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[str | None, str], str] = {}
        self.secrets: dict[str, str] = {}
        self.is_away = False
        self.asked = 0
        self.is_there = asyncio.Event()
        self.is_there.set()

    async def fill(self, tool: Tool, context: CallContext, caller: Caller) -> CallContext:
        self.asked += 1
        await self.is_there.wait()
        if self.is_away:
            raise Unavailable("The provider is away", retry_after_ms=1)
        kept = {each.id: self.tokens.get((caller.user_id, each.id)) for each in tool.requirements.authorization}
        secrets = {name: self.secrets[name] for name in tool.requirements.secrets if name in self.secrets}
        tokens = {id: token for id, token in kept.items() if token is not None}
        return replace(context, tokens={**tokens, **context.tokens}, secrets={**secrets, **context.secrets})


class Listener(QuietChannel):
    """A client that remembers what it is told, and can go away."""

    def __init__(self, asks: Sequence[Asks] = ()) -> None:
        super().__init__()
        self._asks, self._gone = asks, list[Callable[[], None]]()
        self.answers: list[Outcome] = []
        self.questions: list[tuple[str, int]] = []
        self.seqs: list[int] = []
        self.joined = 0
        self.record: Callable[[], None] = lambda: None
        """Has the call put into the ledger."""

    def __repr__(self) -> str:
        return f"Listener({self.answers})"

    def can_ask(self, kind: Asks) -> bool:
        return kind in self._asks

    def put(self, question: Question, seq: int) -> None:
        self.questions.append((question.name, seq))

    def answer(self, outcome: Outcome) -> None:
        self.answers.append(outcome)

    def on_recorded(self, seq: int) -> None:
        self.seqs.append(seq)

    def takes_long(self, record: Callable[[], None]) -> None:
        self.record = record

    def joins(self) -> None:
        self.joined += 1

    def when_gone(self, callback: Callable[[], None]) -> None:
        self._gone.append(callback)

    def go(self) -> None:
        for callback in self._gone:
            callback()


class Room:
    """`async with Room(kit) as room`."""

    def __init__(self, *sources: Source, **changes: Any) -> None:
        self.setting = setting = Setting(**changes)
        limits = setting.timeouts
        self.clock = ManualClock()
        terms = LeaseTerms(lease_s=30.0, max_attempts=setting.max_attempts)
        self.store = store = SqliteStore(":memory:", "here", Retention(1000.0, 5000.0), terms, now=self.clock)
        self.ring = ring = KeyRing(lambda: b"m" * 32)
        self.catalogue = catalogue = Catalogue(tool for source in sources for tool in source.tools)
        self.kept, self.node, self.behind = Kept(), Node(store), store.behind
        self.limiter = Limiter(setting.limits, self.clock) if setting.limits else None
        self.quotas = quotas = Quotas(quotas_of(setting.quotas, is_away=False), store, self.limiter)
        self.rules = rules = ApprovalRules((), setting.approval_wait_s)
        self.links = links = ApprovalLinks(ring, lambda: URL)
        requirer = RequirementResolver(keepers=[self.kept], challenger=_link)
        self.account_questions = AccountQuestions(catalogue, requirer, ring, lambda: URL)
        sandbox = Sandbox()
        self.questions = Questions(store, limits.answer_s, links, sandbox, self.account_questions.of)
        fingerprints = Fingerprints(ring)
        self.durable = DurableCalls(
            self.node, fingerprints, rules, links, limits.sync_wait_s, limits.most_waiting, quotas, self.questions.hear
        )
        runners: dict[str, Runner] = {"inline": Inline(), "thread": Threads(2), "worker": WorkerRunner()}
        plans = ToolPlans(catalogue, runners, rules, limits, store, sandbox, setting.turns)
        self.engine = engine = Engine(
            plans, requirer, self.node, self.durable, self.behind, ring, quotas, self.questions, limiter=self.limiter
        )
        needs = AccountNeeds(store, setting.approval_wait_s)
        self.restarts = Restarts(store, catalogue, engine, self.durable, ring, needs, setting.max_attempts)
        self.account_waits = AccountWaits(
            store, catalogue, engine, ring, limits.claim_s, setting.approval_wait_s, lambda: URL
        )
        self.approvals = Approvals(store, links, limits.claim_s, setting.approval_wait_s)
        self.workers = WorkerTools(store, catalogue, engine, WorkerRules(setting.workers), Unlocked(), quotas)
        self.contexts = WorkerContexts(store, catalogue, engine, ring, limits.total_s, self.workers.may_be_given)
        self.requests = Requests(store, catalogue, engine, self.contexts, needs)
        self.sessions = Sessions(store, catalogue, engine, self.durable, fingerprints, limits, quotas)

    async def __aenter__(self) -> Self:
        await self.store.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.hints.leave()
        await self.restarts.stop()
        await self.durable.close(0.0, _SET)
        await self.node.leave()
        await self.engine.plans.sandbox.close()
        await self.store.close()

    def call(
        self,
        tool: str,
        input: dict[str, Any] | None = None,
        call_id: str | None = None,
        channel: Channel | None = None,
        caller: Caller = ADA,
        **members: Any,
    ) -> "asyncio.Task[Outcome]":
        """In a task of its own, as a request's is."""
        found = self.engine.resolve(tool, caller)
        command = command_of(tool, input, call_id, **members)
        return asyncio.ensure_future(self.engine.call(found, command, caller, channel or QuietChannel(), lambda: URL))

    async def start(
        self, tool: str, input: dict[str, Any] | None = None, call_id: str | None = None, **members: Any
    ) -> int:
        """As a task of MCP is: recorded, and nobody waits."""
        command = command_of(tool, input, call_id, **{"wire": "mcp-task", "family": "mcp"} | members)
        return await self.engine.start(self.engine.resolve(tool, ADA), command, ADA, QuietChannel(), lambda: URL)

    async def row(self, seq: int) -> CallRecord:
        return there(await self.store.row(seq))

    async def rows(self) -> list[CallRecord]:
        """All that are in the ledger, the oldest first."""
        return (await self.store.listed(Filter(None, limit=100)))[::-1]

    async def ended(self, seq: int) -> CallRecord:
        """Once it has."""
        await until(lambda: self._has_ended(seq))
        return await self.row(seq)

    async def _has_ended(self, seq: int) -> bool:
        return (await self.row(seq)).finished_at is not None

    def restart(self) -> None:
        """As the next start of the server sees the ledger: what was held is nobody's any more."""
        self.store.node += "-next"

    async def offer(self, *definitions: ToolDefinition, caller: Caller = ROBOT, name: str = "w1") -> Claimant:
        """Registers a worker: who works on the calls of its tools."""
        await self.workers.register(caller, name, definitions)
        return self.workers.who(caller, name)


def command_of(tool: str, input: dict[str, Any] | None = None, call_id: str | None = None, **members: Any) -> CallTool:
    given: dict[str, Any] = {"wire": "oxp", "family": "oxp"}
    return CallTool(tool, input or {}, call_id, **given | members)


def _link(caller: Caller, wanted: Authorization, tool: Tool) -> tuple[str, str]:
    return f"link-to-{wanted.id}", "CODE"


class _Set:
    """An event that is set: nobody waits for what still runs."""

    def is_set(self) -> bool:
        return True


_SET: Any = _Set()


def there(value: T | None) -> T:
    assert value is not None
    return value


def value_of(outcome: Outcome) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return msgspec.json.decode(outcome.value or b"")


async def until(holds: Callable[[], Awaitable[bool] | bool]) -> None:
    """Gives others their turn until something holds."""
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0)
