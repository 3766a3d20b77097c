"""The composition root: the one place that names concrete parts and puts them together. (MCP has many of its own; those
are put together in `mcp/assembly`.)

A new wire is one module in `wires/` and its routes here; a new runner is one line in `runners`.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...engine.account_wait import AccountNeeds, AccountQuestions, AccountWaits
from ...engine.approvals import Approvals
from ...engine.durable import DurableCalls
from ...engine.engine import Engine
from ...engine.node import Node
from ...engine.plans import Timeouts, ToolPlans
from ...engine.questions import Questions
from ...engine.requests import Requests
from ...engine.restarts import Restarts
from ...engine.sessions import Sessions
from ...engine.upkeep import Upkeep
from ...engine.upstream_tools import UpstreamTools
from ...engine.worker_context import WorkerContexts
from ...engine.worker_tools import OfferLimits, WorkerRunner, WorkerTools
from ...lazy import load
from ...model.caller import Caller
from ...model.clock import SYSTEM_CLOCK, Clock
from ...model.errors import SettingsError
from ...model.json_bounds import JsonBounds
from ...model.run import Runner, Source, each_once
from ...model.tool import Tool
from ...model.upstream import refuse_alike
from ...runners.inline import Inline
from ...runners.processes import Processes
from ...runners.sandbox import Sandbox
from ...runners.threads import Threads
from ...runners.turns import a_quarter
from ...supervision import Supervisor
from ...text.log_scrubbing import scrub_logs
from ...trust.access.access import Access
from ...trust.access.worker_rules import WorkerRules
from ...trust.approvals.links import ApprovalLinks
from ...trust.approvals.rules import ApprovalRules, check_functions
from ...trust.audit.entry import AuditKind
from ...trust.audit.key_check import hold_to_ledger
from ...trust.credentials.api_keys import ApiKeys
from ...trust.credentials.authentication import NOBODY, Credentials, read_keys, token_verifier
from ...trust.credentials.expiry import CredentialExpiry
from ...trust.limits.limits import Limiter
from ...trust.limits.quotas import Quotas
from ...trust.limits.usage_sharing import UsageSharing
from ...trust.requirements.requirements import Keeper, RequirementResolver
from ...trust.requirements.secrets import HeldSecrets
from ...trust.sealing.fingerprints import Fingerprints
from ...trust.sealing.vault import Vault
from ...wires.contract import ErrorEncoder
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.model_text import ModelText
from ...wires.oxp import otc, otc_draft, oxp
from ..accounts.routes import AccountRoutes
from ..admin.operation import OperatorParts, RunningServer
from ..admin.socket import OperatorSocket
from ..approvals import routes as approval_routes
from ..approvals.decisions import AuditedApprovals
from ..console.parts import ConsoleParts
from ..group.member import GroupMember
from ..http.admission import Admission, OperatorsToken
from ..http.body import BodyReader
from ..http.large_results import LargeResults
from ..http.limits import ServerLimits
from ..http.origins import Guard
from ..http.reply_budget import ReplyBudget
from ..http.routes import LateRoutes, Route
from ..http.shell import Shell, lifespan
from ..intake.intake import Intake
from ..intake.metrics import Metrics
from ..intake.readiness import Readiness
from ..intake.rollups import RollupWriter
from ..intake.witness import Witness
from ..ledger import audit_of, open_store, ring_of
from ..lifecycle import calls as call_routes
from ..lifecycle import content
from ..lifecycle import workers as worker_routes
from ..lifecycle.requests import RequestHandlers
from ..lifecycle.sessions import SessionHandlers
from ..mcp.assembly import McpDependencies, assembled
from ..mcp.methods.resources import NamedResources
from ..mcp.protocol.refusals import MCP
from ..oxp import handlers as family_routes
from ..oxp.handlers import OxpHandlers
from ..oxp.listing import Listing
from ..pages import site_routes
from ..rule_check import tell_unfitting
from ..settings.table import MEMORY, Settings
from ..sources import Served, upstreams_wanted
from ..tool_lock import gate_of
from ..wire_check import check_listing, headers_of
from .lag import LagWatch

if TYPE_CHECKING:
    from ...upstream.upstreams import FollowedUpstream, Upstreams
    from ..accounts.parts import AccountParts
    from ..group.counters import GroupCounters

WIRES: dict[str, ErrorEncoder] = {
    "/v1": LIFECYCLE,
    "/mcp": MCP,
    "/otc/draft": otc_draft.DRAFT,
    "/otc": otc.OTC,
    "": oxp.FLAT,
}
"""Which wire answers for a path that is not served: the first prefix that fits."""


class Listening(NamedTuple):
    """How callers and people reach a yard, as far as that is known before it starts. A mounted one knows nothing of it:
    the application around it has the socket."""

    address: str = ""
    """Where the yard itself listens, at the host of its settings; empty where it has no socket of its own."""
    nobody_approves: str = ""
    """Why nobody can approve a call of this yard, and what to do about it; empty where somebody can."""


MOUNTED = Listening()


class Yard:
    """A server's parts. `asgi` is the application; `lifetime` is its life."""

    def __init__(
        self,
        sources: Iterable[Source],
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
        listening: Listening = MOUNTED,
        member: GroupMember | None = None,
    ) -> None:
        """`member`: which process of its group this is, where several serve together."""
        self.settings, self._clock, self._listening = settings, clock, listening
        self._public_url = settings.public_url or listening.address or None
        """The address in links; None where only requests show it."""
        self.sources = each_once(sources)
        self._upstreams_wanted = upstreams_wanted(settings, self.sources)
        self.supervisor = Supervisor()
        self.readiness = Readiness(self.supervisor)
        self.metrics = Metrics()
        self.member = member
        self._group: GroupCounters | None = None if member is None else load("group_counters")(member, self.metrics)
        self._lock = gate_of(settings)
        self._served = Served(self.sources, self._check, self._make_way)
        self.catalogue = self._served.catalogue
        self._threads = Threads(settings.threads, self.supervisor, for_newcomers=a_quarter(settings.threads))
        self.runners: dict[str, Runner] = {
            "inline": Inline(),
            "thread": self._threads,
            "process": Processes(settings.processes, for_newcomers=a_quarter(settings.processes)),
            "worker": WorkerRunner(),
        }
        self.store, self._ring = open_store(settings, clock, self.supervisor)
        self._recorder = self.store.behind if settings.record == "all" else None
        self.audit = audit_of(settings, self.store, self._ring, clock, self.supervisor)
        self.witness = Witness(self.audit, clock.now)
        self.limiting = ServerLimits(settings, clock.monotonic)
        self.telling = telling_of(settings)
        self._put_together(clock)
        limited, asking = [limit.who for limit in self.limiting.limits], [rule.who for rule in settings.approvals]
        self.access = Access(settings.access, limited, asking)
        self.local = partial(Access((), limited, asking).caller, NOBODY)
        """Who started this process, as a caller: limits and approvals are about them too, rules are for others."""
        self._keys = ApiKeys(self.store.api_keys, read_keys(settings.api_keys), clock.now)
        tokens = token_verifier(
            settings.jwt_secret, settings.issuers, settings.jwt_audience, settings.jwt_max_ttl_s, clock.now
        )
        self._validity = CredentialExpiry(self._keys, clock.now)
        self._credentials = authenticate = Credentials(self._keys, tokens, self.access, clock.now)
        self.guard = Guard(
            settings.host,
            settings.public_url,
            settings.allowed_hosts,
            settings.cors_origins,
            lambda: not self.needs_credentials,
            knows_host=bool(listening.address),
        )
        self._starting = asyncio.Lock()
        self._hurried = threading.Event()
        self._calls_end_at: float | None = None
        self._life: AsyncExitStack | None = None
        self.started = False
        self.routes = self._routes(clock)
        self.operators_token = token = OperatorsToken(settings.operator_token)
        self._admission = admission = Admission(
            self.guard,
            authenticate,
            self.witness,
            has_issuers=bool(settings.issuers),
            failures=self.limiting.failures,
            by_address=self.limiting.is_by_address,
            operator=token,
            validity=self._validity,
        )
        reader = BodyReader(settings.max_body_bytes, bounds_of(settings))
        life, admin = lifespan(self.start, self.stop), self._admin(clock)
        routes: list[Route | LateRoutes] = [*self.routes, *self._forms, *self._mcp(clock), admin, self._console(clock)]
        self.asgi = Shell(
            routes, reader, admission, WIRES, life, self.start, settings, self._public_url, self.limiting,
            self._replies,
        )  # fmt: skip
        inside = Shell([admin], reader, admission, WIRES, life, _already_started, settings, self._public_url or "")
        found_at = listening.address or settings.public_url or ""
        self._operator_socket = OperatorSocket(settings.store, token.text, inside, found_at)

    def _check(self, tools: Iterable[Tool]) -> None:
        """The server's own. Raises DefinitionError."""
        tools = list(tools)
        for tool in tools:
            headers_of(tool)
        self._lock.check(tools)
        check_functions(self.settings.approvals, tools)

    def _make_way(self, tools: Iterable[Tool]) -> None:
        """Before an author's tools come: workers may have brought others by the same names."""
        self._workers.make_way(tools)

    def _own_url(self) -> str:
        """Where people find this server, as far as it knows."""
        return self._public_url or f"http://{self.settings.host}:{self.settings.port}"

    def _put_together(self, clock: Clock) -> None:
        """The engine and what stands around it, over the ledger."""
        settings, store, catalogue, ring = self.settings, self.store, self.catalogue, self._ring
        self._replies = ReplyBudget()
        timeouts = timeouts_of(settings)
        self._fingerprints = fingerprints = Fingerprints(ring)
        self._node = node = Node(store)
        self.approvals = approvals = ApprovalRules(
            settings.approvals, settings.approval_wait_s, self._listening.nobody_approves
        )
        self.approval_links = links = ApprovalLinks(ring, self._own_url)
        approving = Approvals(store, links, settings.claim_wait_s, settings.approval_wait_s)
        self._decisions = AuditedApprovals(approving, self.witness.note, clock.now)
        self._quotas = quotas = Quotas(self.limiting.quotas, store, self.limiting.limiter)
        self._vault = Vault(store.sealed, ring)
        self.connecting = connecting = self._connect(clock)
        held = HeldSecrets(self._vault, clock.now)
        keepers: list[Keeper] = [held]
        keepers += [connecting.connections] if connecting is not None else []
        requirer = RequirementResolver(clock.new_id, keepers, None if connecting is None else connecting.challenge)
        accounts, sandbox = AccountQuestions(catalogue, requirer, ring, self._own_url), Sandbox()
        questions = Questions(store, timeouts.answer_s, links, sandbox, accounts.of)
        self._recorded = recorded = DurableCalls(
            node, fingerprints, approvals, links, settings.sync_wait_s, settings.queue_limit, quotas, questions.hear
        )
        plans = ToolPlans(
            catalogue, self.runners, recorded.approvals, timeouts, store, sandbox, LargeResults(self._replies)
        )
        self.engine = Engine(
            plans, requirer, node, recorded, self._recorder, ring, quotas, questions, clock, self.limiting.limiter
        )
        self._named: NamedResources | None = None
        self.upstreams = self._gateway(plans, held)
        self.intake = Intake(self.engine, self.readiness, self.metrics, self.witness, clock)
        lacking = AccountNeeds(store, settings.approval_wait_s)
        self._restarts = Restarts(store, catalogue, self.engine, recorded, ring, lacking, settings.max_attempts)
        self._awaited = AccountWaits(
            store, catalogue, self.engine, ring, timeouts.claim_s, settings.approval_wait_s, self._own_url
        )
        self._upkeep = Upkeep(node, self._restarts, self.readiness.set_ledger_usable)
        self._workers = workers = WorkerTools(
            store, catalogue, self.engine, WorkerRules(settings.workers), self._lock, quotas, check_listing,
            OfferLimits(settings.max_tools_per_worker, settings.max_tools_per_caller),
            tuple(each.name for each in self._upstreams_wanted),
        )  # fmt: skip
        given = WorkerContexts(store, catalogue, self.engine, ring, settings.total_timeout_s, workers.may_be_given)
        self._requests = Requests(store, catalogue, self.engine, given, lacking)
        self._sessions = Sessions(store, catalogue, self.engine, recorded, fingerprints, timeouts, quotas)

    def _gateway(self, plans: ToolPlans, held: HeldSecrets) -> "Upstreams | None":
        """What runs tools of upstreams, where there are any. Raises SettingsError for names that cannot be."""
        wanted = self._upstreams_wanted
        try:
            refuse_alike(wanted)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        toolkits = {tool.toolkit.name.casefold(): tool.toolkit.name for tool in self.catalogue.all()}
        for each in wanted:
            if (own := toolkits.get(each.name.casefold())) is not None:
                raise SettingsError(f"the upstream {each.name} is called like the toolkit {own}; give it another name")
        if not wanted:
            return None
        hosts = {up.name: source.host for source in reversed(self.sources) for up in source.upstreams}
        tools = UpstreamTools(self.catalogue, plans, self._lock, check_listing, hosts)
        self._named = NamedResources(self._node, self.settings.retention_s)
        upstreams: Upstreams = load("gateway")(
            wanted, tools, self.store, self._ring, held, self.settings.max_result_bytes, self._named.keep
        )
        self.runners["upstream"] = upstreams
        return upstreams

    def _connect(self, clock: Clock) -> "AccountParts | None":
        """What leads people to providers, where there are any."""
        try:
            clients = [each.client for each in self.settings.issuers if each.client is not None]
            for each in (*self.settings.providers, *clients):
                each.secret()
        except ValueError as error:
            raise SettingsError(str(error)) from None
        return self._connecting(clock) if self.settings.providers else None

    def _connecting(self, clock: Clock) -> "AccountParts":
        did = partial(self.witness.did, AuditKind.CONNECTION)
        connecting: AccountParts = load("connecting")(self.settings, self.store, self._ring, clock.now, did)
        return connecting

    @asynccontextmanager
    async def lifetime(self) -> AsyncIterator[None]:
        """Makes what the tools share, takes calls, and closes all of it."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Once, whoever asks first: the ASGI lifespan, or the first request of a mounted app."""
        async with self._starting:
            if self._life is not None:
                return
            scrub_logs()
            async with AsyncExitStack() as stack:
                await self.store.open()
                self.store.hints.stay()
                self._calls_end_at = None
                stack.push_async_callback(self.store.close)
                await hold_to_ledger(self._ring, self.store)
                self._ring.subkey("fingerprint")  # a ring that cannot be used is found now
                if self.audit is not None:
                    await self.audit.open()
                    stack.push_async_callback(self.audit.close)
                rollups = RollupWriter(self.metrics, self.store, self._clock.now)
                stack.push_async_callback(rollups.write)  # once the last calls have ended, which are let end before
                self._keep(stack, "rollups", rollups.run)
                if self._group is not None:
                    await stack.enter_async_context(self._group.opened())
                    self._keep(stack, "group's counters", self._group.run)
                if self._recorder is not None:
                    stack.push_async_callback(self._recorder.flush)
                    self._keep(stack, "recorder", self._recorder.run)
                for source in self.sources:
                    stack.callback(source.subscribe(self._served.follow))
                    self.engine.resources[source.host] = await stack.enter_async_context(source.running())
                for runner in self.runners.values():
                    stack.push_async_callback(runner.close)
                stack.push_async_callback(self.engine.plans.sandbox.close)
                stack.push_async_callback(self._leave_calls)
                stack.push_async_callback(self._restarts.stop)
                stack.enter_context(LagWatch(self.catalogue, self._threads, self.supervisor))
                if self.upstreams is not None:
                    await self.upstreams.serve_kept()
                    for name, follow in self.upstreams.tasks():
                        self._keep(stack, name, follow)
                    self._keep(stack, "lock of upstreams", partial(self.upstreams.follow_lock, self._lock.revision))
                await self._restarts.start_all()
                await self._keys.sync()
                stack.push_async_callback(self._keys.close)
                self._keep(stack, "API keys", self._keys.follow)
                await self._workers.sync()
                self._keep(stack, "workers' tools", self._workers.follow)
                self._keep(stack, "upkeep", self._upkeep.run)
                self._keep(stack, "ledger check", self._upkeep.watch)
                if self.connecting is not None:
                    self._keep(stack, "awaited accounts", self._awaited.follow)
                if self.limiting.limiter is not None:
                    self._share(stack, self.limiting.limiter)
                if self._quotas.counts_bytes:
                    await self._quotas.look()
                    self._keep(stack, "quotas", self._quotas.follow)
                stack.enter_context(self.mcp.subscriptions.open())
                await stack.enter_async_context(self._operator_socket.opened())
                self._life = stack.pop_all()
            self._tell_unfitting(self.settings)
            self.readiness.take_calls()
            self.started = True

    def _share(self, stack: AsyncExitStack, limiter: Limiter) -> None:
        """Tells other nodes what is used here, and hears of theirs."""
        self._keep(stack, "shared limits", UsageSharing(limiter, self.store, self._clock).run)

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """What has this yard follow other settings, of which only those differ that can change while it runs. All that
        can be wrong is found now; what this returns does the rest at once, and no request sees a part of it. Raises
        SettingsError."""
        keys = read_keys(settings.api_keys)
        tokens = token_verifier(
            settings.jwt_secret, settings.issuers, settings.jwt_audience, settings.jwt_max_ttl_s, self._clock.now
        )
        limiting = ServerLimits(settings, self._clock.monotonic)
        change_ring = None if settings.store == MEMORY else self._ring.prepare(ring_of(settings))

        def adopt() -> None:
            old, self.settings = self.settings, settings
            if change_ring is not None:
                change_ring()
                self._fingerprints.keys_changed()
            self._adopt_limits(limiting)
            self._keys.adopt(keys)
            before = self._credentials.adopt(tokens)
            if _tokens_of(old) != _tokens_of(settings):
                self.engine.beside(self._end_tokens(before))
            self._admission.adopt(has_issuers=bool(settings.issuers), by_address=self.limiting.is_by_address)
            self.guard.adopt(settings.allowed_hosts, settings.cors_origins)
            self.asgi.allow_pages(settings.cors_origins)
            self._tell_unfitting(settings)

        return adopt

    def _tell_unfitting(self, settings: Settings) -> None:
        tell_unfitting(settings, self.catalogue.all(), [each.name for each in self._upstreams_wanted])

    async def _end_tokens(self, before: list[tuple[Caller, bytes]]) -> None:
        """Ends what goes on with tokens that are not taken any more."""
        kept = [caller for caller, token in before if await self._credentials.is_taken(token)]
        known = set(map(id, kept))
        self._validity.end_tokens([caller for caller, _ in before if id(caller) not in known], kept)

    def _adopt_limits(self, limiting: ServerLimits) -> None:
        """Before credentials: who is let in from now on has a view that knows the limits by their numbers."""
        is_first = self.limiting.limiter is None
        first = self.limiting.adopt(limiting)
        self.access.adopt(self.settings.access, [limit.who for limit in self.limiting.limits], first)
        limiter = self.limiting.limiter
        if is_first and limiter is not None and self._life is not None:
            self.engine.limit_by(limiter)
            self._quotas.limit_by(limiter)
            self._share(self._life, limiter)

    def _keep(self, stack: AsyncExitStack, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Beside the calls, as long as the server runs."""
        stack.push_async_callback(self.supervisor.task(name, run).stop)

    async def stop(self) -> None:
        """After this it can be started again."""
        self.readiness.refuse_calls()
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()

    @property
    def needs_credentials(self) -> bool:
        """Whether callers are asked who they are. Once it has started, also because of a key in the ledger."""
        return self.settings.has_authentication or self._keys.has_any

    @property
    def has_ledger_keys(self) -> bool:
        """Whether the ledger has, or had, an API key."""
        return self._keys.has_kept

    def let_go(self, calls_end_at: float | None = None) -> None:
        """Who only waits, for work or for what runs elsewhere, is answered now: the server leaves. Calls have until
        then, by `time.monotonic`; without it, `grace_s` from when it stops."""
        self.readiness.refuse_calls()
        self._calls_end_at = calls_end_at
        self.store.hints.leave()
        self._recorded.let_go()

    @property
    def runs_calls(self) -> bool:
        """Whether a recorded call runs here, which may have outlived its request."""
        return self._recorded.runs_any

    def hurry(self) -> None:
        """Stops without waiting for what runs. From any thread, or a signal's handler."""
        self._hurried.set()

    async def _leave_calls(self) -> None:
        end = self._calls_end_at
        left_s = self.settings.grace_s if end is None else max(end - time.monotonic(), 0.0)
        await self._recorded.close(left_s, self._hurried)
        await self._node.leave()

    def _routes(self, clock: Clock) -> list[Route]:
        settings = self.settings
        listing = Listing(self.catalogue)
        oxp_handlers = OxpHandlers(self.intake, listing, self.readiness, self.telling, self._replies)
        authorize = AccountRoutes(self.connecting, self._ring, self.limiting.failures, self.witness)
        self._forms = authorize.forms
        routes = [
            *authorize.documented,
            *family_routes.routes(oxp_handlers),
            *call_routes.routes(self.store, self.engine.own_calls, self.telling, self.engine.questions, self._replies),
            *content.routes(self.engine.own_calls, self._replies),
            *RequestHandlers(
                self._requests,
                self._workers,
                self.engine.questions,
                self.intake,
                settings.lease_s,
                self.telling,
                self._replies,
                self._quotas,
            ).routes(),
            *SessionHandlers(self._sessions, self.intake, clock.new_id, self.telling, self._replies).routes(),
            *worker_routes.routes(self._workers, self.witness, settings.lease_s, settings.max_tools_per_worker),
            *approval_routes.routes(self._decisions, self.catalogue),
            *approval_routes.pages(self._decisions, self._ring, self.catalogue, clock.now),
        ]
        site = site_routes.Site(
            lambda: self.settings,
            self.catalogue,
            self.access,
            self.metrics,
            self.readiness,
            lambda: self.needs_credentials,
            None if self._group is None else self._group.all,
        )
        return routes + site_routes.routes(site, lambda: [*routes, *self.mcp_routes])

    def _admin(self, clock: Clock) -> LateRoutes:
        """The operator's table, with everything that a running server knows."""
        server = RunningServer(
            self.catalogue, self.access, lambda: self.limiting.limits, self.settings.approvals, self._keys.sync,
            self.upstreams,
        )  # fmt: skip
        parts = OperatorParts(
            self.store,
            self._ring,
            clock.now,
            self._decisions,
            lambda: self._connecting(clock).connections,
            lambda exchange: load("console_code")(self.store, self._ring, exchange.base_url()),
            _none_are_idle,
            server,
        )
        methods = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
        return LateRoutes("/v1/admin", methods, lambda: load("operators_table")(parts))

    def _console(self, clock: Clock) -> LateRoutes:
        """The same operator's pages, which are no part of the API either."""
        parts = ConsoleParts(
            self.store, self._ring, self.catalogue, self.engine, self._workers, self._decisions, self.readiness,
            self.witness, lambda: self.settings.access, self.settings.approvals, lambda: not self.needs_credentials,
            (lambda: ()) if self.upstreams is None else self.upstreams.reports,
        )  # fmt: skip
        return LateRoutes("/console", frozenset({"GET", "HEAD", "POST"}), lambda: load("console")(parts, clock.now))

    def _mcp(self, clock: Clock) -> list[Route]:
        parts = McpDependencies(
            self.settings, self.sources, self.catalogue, self.engine, self._node, self._ring, self.intake,
            self.witness, self.limiting.streams, self.telling, self._quotas, self._replies, self.upstreams, self._named,
        )  # fmt: skip
        self.mcp, routes = assembled(parts, clock)
        self.mcp_routes = [route for route in routes if route.path == "/mcp"]
        """Without the other spelling of that address."""
        return routes


def _tokens_of(settings: Settings) -> tuple[object, ...]:
    """What decides which bearer tokens are taken."""
    return settings.jwt_secret, settings.jwt_audience, settings.jwt_max_ttl_s, settings.issuers


def timeouts_of(settings: Settings) -> Timeouts:
    return Timeouts(
        run_s=settings.call_timeout_s,
        queue_s=settings.queue_wait_s,
        claim_s=settings.claim_wait_s,
        total_s=settings.total_timeout_s,
        sync_wait_s=settings.sync_wait_s,
        answer_s=settings.answer_wait_s,
        most_waiting=settings.queue_limit,
        show_exceptions=settings.show_exceptions,
        result_bytes=settings.max_result_bytes,
    )


def bounds_of(settings: Settings) -> JsonBounds:
    return JsonBounds(settings.max_json_depth, settings.max_json_values, settings.max_json_digits)


def telling_of(settings: Settings) -> ModelText:
    safe_text: Any = settings.safe_text
    return ModelText(safe_text, settings.max_output_bytes)


async def _none_are_idle() -> "dict[str, FollowedUpstream]":
    """A running server follows all of its upstreams."""
    return {}


async def _already_started() -> None:
    """The operator's socket opens last."""
