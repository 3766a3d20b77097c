"""The path of a call, in one direction:

resolve -> known already? replay or join -> limits -> validate input -> requirements -> run -> check output -> outcome.

`resolve` and `call` are separate, so that a wire can refuse what is not there before it promises anything. The engine
raises one tree of errors before the tool runs and returns an Outcome after; it knows no status code.
A call here makes no task and no lock: what it costs is what the bars in bench/ measure.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from ..model.asset import Asset
from ..model.call import NO_CONTEXT, Brought, CallContext, CallTool, Outcome
from ..model.caller import Caller
from ..model.channel import Channel, QuietChannel
from ..model.clock import SYSTEM_CLOCK, Clock
from ..model.errors import InvalidInput, LimitReached, MissingRequirements, Problem, ToolError
from ..model.json_value import decode
from ..model.lifecycle import WaitingFor
from ..model.record import CallRecord, NewCall, new_call
from ..model.run import Run
from ..model.tool import Host, Tool
from ..model.writes import DIRECT
from ..runners.attempt import attempt, resumed, unexpected
from ..runners.validation import explain
from ..store.values import StoreDown
from ..store.write_behind import WriteBehind
from ..text.scrubber import scrubber_of
from ..trust.access.access import refuse_lacking
from ..trust.limits.backoff import Backoff
from ..trust.limits.limits import Limiter
from ..trust.limits.meters import CountedCall
from ..trust.limits.quotas import Quotas
from ..trust.requirements.requirements import Requirer, declared
from ..trust.sealing.ring import KeyRing
from .account_retries import AccountRetries, which_call
from .concurrency import Slots
from .durable import DurableCalls, InputCheck, PreparedCall
from .node import Node
from .own_calls import OwnCalls
from .plans import Plan, ToolPlans
from .promotion import Promotions
from .questions import Questions

_log = logging.getLogger("toolyard.engine")
_encode, _decode = msgspec.json.Encoder().encode, decode
T = TypeVar("T")
LARGEST_KEPT_CONTEXT = 64 * 2**10
"""Of tokens, secrets and what is said of the user, where a call has to wait or may be run again."""


class Engine:
    """Takes calls of the catalogue's tools, whichever wire they came over: the fast lane here, what is recorded first
    through `DurableCalls`. How a tool is called stands in its plan."""

    def __init__(
        self,
        plans: ToolPlans,
        requirer: Requirer,
        node: Node,
        recorded: DurableCalls,
        recorder: WriteBehind | None,
        ring: KeyRing,
        quotas: Quotas,
        questions: Questions,
        clock: Clock = SYSTEM_CLOCK,
        limiter: Limiter | None = None,
    ) -> None:
        """`limiter` is None where nothing is limited."""
        self.plans, self.questions = plans, questions
        self._catalogue, self._limits = plans.catalogue, plans.limits
        self._requirer, self._approvals = requirer, recorded.approvals
        self._node, self._recorded, self._recorder = node, recorded, recorder
        self.own_calls = OwnCalls(node.store, plans.catalogue)
        limits = plans.limits
        self._long = Promotions(node, recorder, limits.sync_wait_s, self._described, quotas)
        self._seal = partial(ring.seal, "context")
        self._ask = questions.ask
        self._new_id, self._monotonic = clock.new_id, clock.monotonic
        self._limiter, self._patience, self._quotas = limiter, Backoff(), quotas
        self._retries = AccountRetries(node.store, limits.sync_wait_s, clock.monotonic)
        self.resources: dict[Host, Any] = {}
        """What each app's lifespan made, while the server runs."""

    def limit_by(self, limiter: Limiter) -> None:
        """Has calls be limited from now on, where they were not."""
        self._limiter = limiter

    def resolve(self, reference: str, caller: Caller, *, latest: bool = False) -> Tool:
        """The tool that a caller means. Raises ToolNotFound, or Forbidden where its credentials are not for it."""
        tool = self._catalogue.resolve(reference, caller.view, latest=latest)
        refuse_lacking(tool, caller)
        return tool

    def refuse_unseen(self, tool: Tool, caller: Caller) -> None:
        """For who has waited for a call of another request: the rules may have taken the tool away meanwhile. Raises
        ToolNotFound, or Forbidden where the credentials are not for it any more."""
        if not caller.view.lists(tool):
            self.resolve(tool.reference, caller)

    def call(
        self, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str] = str
    ) -> Coroutine[Any, Any, Outcome]:
        """Raises RequestError or ServerError when the tool was not run; afterwards always an Outcome."""
        command.keep_input()
        plan = self.plans.by_tool[tool]
        if plan.has_accounts:
            which = which_call(command, caller, self._recorded.print_of(command))
            make = partial(self._call, plan, tool, command, caller, channel, base_url)
            return self._retries.call(make, partial(self._has_accounts, tool, command, caller), which, channel)
        return self._call(plan, tool, command, caller, channel, base_url)

    def _call(
        self, plan: Plan, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str]
    ) -> Coroutine[Any, Any, Outcome]:
        if command.call_id is not None or plan.is_durable:
            check = self._check(tool, command, caller, channel, base_url)
            call = self._recorded.call(command, caller, check, channel)
            return call if self._limiter is None else self._patiently(call, caller)
        if self._limiter is not None or self._quotas.has_full:
            return self._limited(plan, tool, command, caller, channel, base_url)
        if plan.slots is None:
            return self._run(plan, tool, command, caller, channel, base_url)
        return self._run_in(plan.slots, self._run(plan, tool, command, caller, channel, base_url), caller, channel)

    def _check(
        self,
        tool: Tool,
        command: CallTool,
        caller: Caller,
        channel: Channel,
        base_url: Callable[[], str],
        *,
        may_wait: bool = False,
    ) -> InputCheck:
        prepare = partial(self.prepare, tool, command, caller, channel, base_url, may_wait=may_wait)
        return InputCheck(prepare, base_url, self.plans.looks_first(tool), partial(self.refuse_unseen, tool, caller))

    async def _filled(self, plan: Plan, tool: Tool, command: CallTool, caller: Caller) -> CallTool:
        """A call with what `_checked` needs to know of it: what is wrong with input for a stranger's schema, and what
        is kept here for the call. Anew for each attempt, as what is kept may have been renewed or taken away."""
        if plan.has_foreign_schemas:
            whose = (caller.tenant, caller.subject)
            command = replace(command, problems=await self.plans.sandbox.check(tool.input_schema, command.input, whose))
        return await self._requirer.fill(tool, command, caller) if plan.has_requirements else command

    async def _has_accounts(self, tool: Tool, command: CallTool, caller: Caller) -> bool:
        """Whether every account that the tool needs is brought along or kept here."""
        given = (await self._requirer.fill(tool, command, caller)).given
        return all(wanted.id in given.tokens for wanted in tool.requirements.authorization)

    async def context(self, tool: Tool, command: CallTool, caller: Caller) -> CallContext:
        """What a worker is given with a call that it has claimed. Raises MissingRequirements and Unavailable."""
        if self.plans.by_tool[tool].has_requirements:
            command = await self._requirer.fill(tool, command, caller)
            user = command.context.user_id
            self._requirer.check(tool, command, caller if user is None else replace(caller, user_id=user), str)
        return command.given

    async def _limited(
        self, plan: Plan, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str]
    ) -> Outcome:
        """In the same task from its admission to the end of its run, whatever its client was told meanwhile."""
        try:
            self._quotas.refuse_full(caller)
            admitted = None if self._limiter is None else self._limiter.admit(tool, caller)
        except LimitReached as refused:
            raise await self._held_back(refused, caller) from None
        if self._patience.refused:
            self._patience.let_in((caller.tenant, caller.subject))
        try:
            run = self._run(plan, tool, command, caller, channel, base_url)
            return await (run if plan.slots is None else self._run_in(plan.slots, run, caller, channel))
        finally:
            if admitted is not None:
                admitted.end()

    @asynccontextmanager
    async def counted(self, offer: Asset, caller: Caller) -> AsyncIterator[None]:
        """What is no call and counts as one, while the block lasts. Raises LimitReached."""
        if self._limiter is None:
            yield
            return
        try:
            admitted = self._limiter.admit(offer, caller)
        except LimitReached as refused:
            raise await self._held_back(refused, caller) from None
        self._patience.let_in((caller.tenant, caller.subject))
        try:
            yield
        finally:
            admitted.end()

    def count_use(self, name: str, caller: Caller) -> CountedCall | None:
        """Of a tool that the server does not have. Raises LimitReached."""
        self._quotas.refuse_full(caller)
        return None if self._limiter is None else self._limiter.count(Asset("sessions", name), caller)

    async def _patiently(self, call: Coroutine[Any, Any, T], caller: Caller) -> T:
        """A call that may be refused for its limits on its way."""
        try:
            answer = await call
        except LimitReached as refused:
            raise await self._held_back(refused, caller) from None
        self._patience.let_in((caller.tenant, caller.subject))
        return answer

    async def _held_back(self, refused: LimitReached, caller: Caller) -> LimitReached:
        """Who does not wait as it was told is told later."""
        held_s = await self._patience.hold((caller.tenant, caller.subject))
        refused.retry_after_ms = max(1, refused.retry_after_ms - int(held_s * 1000))
        return refused

    async def _run_in(
        self, slots: Slots, run: Coroutine[Any, Any, Outcome], caller: Caller, channel: Channel
    ) -> Outcome:
        try:
            async with slots.turn(caller, channel):
                return await run
        finally:
            run.close()

    async def _run(
        self, plan: Plan, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str]
    ) -> Outcome:
        """The fast lane: a call that ends with its first step has made no task and no timer."""
        if plan.needs_filling:
            command = await self._filled(plan, tool, command, caller)
        try:
            arguments, run = self._checked(plan, tool, command, caller, channel, base_url)
        except ToolError as error:
            return Outcome(self._new_id(), 0.0, error=error)
        steps = attempt(plan.recipe, arguments, run, self._monotonic)
        try:
            waiting_for = steps.send(None)
        except StopIteration as done:
            outcome: Outcome = done.value
        else:
            return await self._long.through(resumed(steps, waiting_for), command, run)
        if self._recorder is not None:
            self._recorder.add(command, run, outcome)
        if run.place is not None:
            run.channel.when_answered(run.place.give)
        return outcome

    def _checked(
        self,
        plan: Plan,
        tool: Tool,
        command: CallTool,
        caller: Caller,
        channel: Channel,
        base_url: Callable[[], str] | None,
    ) -> tuple[dict[str, Any], Run]:
        """The arguments and the run of a call that may be made. Raises what is wrong with it, and ToolError where the
        author's own validator fails. Without an address nobody is told what is missing, so it may be."""
        input, context = command.input, command.context
        given = command.given if plan.has_requirements else NO_CONTEXT
        if plan.has_foreign_schemas:
            if command.problems != ():
                raise InvalidInput(command.problems or (Problem("", "Was not checked"),))
        elif not plan.accepts(input):
            raise explain(plan.input_check, tool.input_schema, input)
        try:
            arguments = plan.bind(input)
        except InvalidInput:
            raise
        except BaseException as raised:  # an author's validator
            raise unexpected(self.plans.bounds, tool, command.call_id or "", raised) from None
        if context.user_id is not None:
            caller = caller.speaking_for(context.user_id)
        if plan.has_requirements and base_url is not None:
            self._requirer.check(tool, command, caller, base_url)
        run = Run(
            tool, command.call_id or self._new_id(), caller, input, channel,
            command.trace_id, context.user_info, given.secrets, given.tokens, self.resources.get(tool.host),
            asking=self._ask, answers=command.answers,
            scrubber=scrubber_of(given.secrets, given.tokens) if plan.has_requirements else None,
            input_json=command.input_json, family=command.family, keyed=command.call_id is not None, meta=command.meta,
        )  # fmt: skip
        return arguments, run

    async def start(
        self, tool: Tool, command: CallTool, caller: Caller, channel: Channel, base_url: Callable[[], str] = str
    ) -> int:
        """Records a call and has it run, and does not wait for it. Its number in the ledger."""
        command.keep_input()
        check = self._check(tool, command, caller, channel, base_url, may_wait=True)
        start = self._recorded.detach(command, caller, check)
        return await (start if self._limiter is None else self._patiently(start, caller))

    async def kept(self, tool: Tool, command: CallTool, caller: Caller, outcome: Outcome) -> bool:
        """Whether a call that has ended is in the ledger, for whoever is told to come back for its result. One that is
        only to be written behind is written now."""
        if command.call_id is not None or self.plans.waits_for_claim(tool):
            return True
        store = self._node.store
        try:
            if await store.get(caller.tenant, caller.subject, outcome.call_id, command.family) is not None:
                return True
            caller = replace(caller, user_id=command.context.user_id or caller.user_id)
            run = Run(tool, outcome.call_id, caller, command.input, QuietChannel(), command.trace_id)
            return await store.record([(command, run, outcome)]) == 0
        except StoreDown as down:
            _log.warning("a large result could not be kept: %s", down.developer_message)
            return False

    async def recorded_call(self, caller: Caller, family: str, call_id: str) -> CallRecord | None:
        """The caller's newest call of that id over these wires."""
        return await self._node.store.get(caller.tenant, caller.subject, call_id, family)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something that nobody waits for."""
        self._node.beside(work)

    async def known(self, command: CallTool, caller: Caller) -> CallRecord | None:
        """The call that was made before with the same key, tool, user and input."""
        return await self._recorded.known(command, caller)

    def joined_by(self, call: CallRecord, channel: Channel) -> None:
        """A client waits for a call that another one made: it is not stopped while this one is there."""
        self._recorded.joined_by(call, channel)

    async def on_collected(self, call: CallRecord) -> None:
        """Its caller has been told how it ended."""
        await self._recorded.on_collected(call)

    async def replay(self, command: CallTool, caller: Caller) -> Outcome | None:
        """What is known of a call whose tool is not there any more. Nothing, where the tool is there, or was, and these
        credentials are not for it."""
        command.keep_input()
        if command.call_id is None:
            return None
        known = await self._recorded.known(command, caller)
        if known is not None and not self.own_calls.shows(known, caller):
            return None
        return await self._recorded.replay(command, caller)

    async def prepare(
        self,
        tool: Tool,
        command: CallTool,
        caller: Caller,
        channel: Channel,
        base_url: Callable[[], str] = str,
        *,
        may_wait: bool = False,
    ) -> PreparedCall:
        """What to record of a call, and how to run it then. Raises what is wrong with it. Whoever does not run it after
        all says `uncount()`. With `may_wait` a user's account that is not connected is not wrong: the call waits for
        it."""
        command.keep_input()
        plan = self.plans.by_tool[tool]
        if plan.needs_filling:
            command = await self._filled(plan, tool, command, caller)
        self._quotas.refuse_full(caller)
        admitted = None if self._limiter is None else self._limiter.admit(tool, caller)
        try:
            waiting_for = None
            try:
                arguments, run = self._checked(plan, tool, command, caller, channel, base_url)
            except MissingRequirements as error:
                if not may_wait or not error.missing.can_come:
                    raise
                arguments, run = self._checked(plan, tool, command, caller, channel, None)
                waiting_for = WaitingFor.AUTHORIZATION
            if waiting_for is None and plan.may_need_approval and self._needs_approval(tool, command, caller):
                self._approvals.refuse_where_nobody_can(tool.wire_name)
                waiting_for = WaitingFor.APPROVAL
        except BaseException:
            if admitted is not None:
                admitted.end()
            raise
        new = self._described(command, run, waiting_for)
        stops = (tool.on_disconnect or ("continue" if new.keyed else "cancel")) == "cancel"
        attempted = partial(attempt, plan.recipe, arguments, run, self._monotonic)
        return PreparedCall(new, run, attempted, plan.slots, stops, admitted, base_url)

    def _needs_approval(self, tool: Tool, command: CallTool, caller: Caller) -> bool:
        """Whoever decides that sees the input as it came, and has a copy of its own."""
        return self._approvals.are_needed(tool, _decode(command.input_json), caller)

    def _described(self, command: CallTool, run: Run, waiting_for: WaitingFor | None = None) -> NewCall:
        """What is recorded of a call before it runs, with what a later attempt would need of what was brought. What is
        kept here is filled in again then: it may have been renewed, or taken away."""
        new, tool = new_call(command, run), run.tool
        new.total_s, new.offer = self._limits.total_s, tool.offer
        if self.plans.waits_for_claim(tool):
            new.queue, new.session = "worker", DIRECT
            new.queue_s, new.run_s = self._limits.claim_s, tool.timeout or self._limits.run_s
        if waiting_for is not None:
            new.waiting_for, new.queue_s = waiting_for, self._approvals.wait_s
        needs_context = tool.on_lost == "rerun" or new.queue == "worker" or waiting_for is not None
        brought = declared(tool, command.context) if needs_context else NO_CONTEXT
        caller = run.caller
        speaks = bool(tool.requirements) and (caller.user_id or caller.issuer) is not None
        if needs_context and (brought.secrets or brought.tokens or run.user_info or speaks):
            context = Brought(brought.tokens, brought.secrets, caller.user_id, run.user_info, caller.issuer)
            encoded = _encode(context)
            if len(encoded) > LARGEST_KEPT_CONTEXT:
                most = f"{LARGEST_KEPT_CONTEXT} bytes"
                raise InvalidInput((Problem("context", f"Has at most {most} where it is kept with the call"),))
            new.sealed = self._seal(encoded, run.call_id.encode())
        return new
