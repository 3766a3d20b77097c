"""`/v1/tools`: requests, for whoever works on them.

A request is a call that somebody outside this server has to run: a worker, or the client that brought the tool with its
session. Whoever works on it claims it, sends heartbeats while it runs, and responds, or releases it for another. Each
of these names the attempt that it is about, so that one who comes too late changes nothing.
"""

from functools import partial

from ...engine.questions import Questions
from ...engine.requests import At, Requests
from ...engine.wait import Wait
from ...engine.worker_tools import WorkerTools
from ...model.lifecycle import State
from ...model.writes import DIRECT, Claimant
from ...store.values import ClaimFilter
from ...trust.audit.entry import AuditKind
from ...trust.limits.quotas import Quotas
from ...wires.contract import Reply
from ...wires.lifecycle import requests as wire
from ...wires.lifecycle.calls import LIFECYCLE
from ...wires.model_text import ModelText
from ..http import query
from ..http.exchange import Exchange
from ..http.reply_budget import ReplyBudget
from ..http.routes import Handler, Route
from ..intake.intake import Intake

AT = "/v1/tools/request/{sessionId}/{requestId}"
RESPONSE = "/v1/tools/response/{sessionId}/{requestId}"


class RequestHandlers:
    """The handlers of requests: each decodes, lets `engine/requests.py` do it, and encodes what became of it."""

    def __init__(
        self,
        requests: Requests,
        workers: WorkerTools,
        questions: Questions,
        intake: Intake,
        lease_s: float,
        telling: ModelText,
        replies: ReplyBudget,
        quotas: Quotas,
    ) -> None:
        self._replies, self._quotas = replies, quotas
        self._told, self._questions = telling.record, questions
        self._requests, self._workers, self._intake = requests, workers, intake
        self._lease_ms = int(lease_s * 1000)

    def routes(self) -> list[Route]:
        return [
            _post(f"{AT}/heartbeat", self.heartbeat, reads_json=True),
            _post(
                "/v1/tools/response/{sessionId}/{requestId}", self.respond, reads_json=True, audit_as=AuditKind.ANSWER
            ),
            _post(f"{AT}/release", self.release, audit_as=AuditKind.RELEASE),
            _post(f"{AT}/cancel", self.cancel, audit_as=AuditKind.CANCEL),
            Route("GET", AT, self.show, LIFECYCLE),
            Route("GET", "/v1/tools/requests", self.listed, LIFECYCLE),
            _post("/v1/tools/claim", self.claim, reads_json=True),
            _post("/v1/tools/heartbeats", self.renew, reads_json=True),
        ]

    async def heartbeat(self, exchange: Exchange) -> Reply:
        at = self._at(exchange)
        return wire.encode_empty(await self._requests.heartbeat(at, wire.decode_heartbeat(exchange.body)))

    async def respond(self, exchange: Exchange) -> Reply:
        at = self._at(exchange)
        # A session's results are kept for its caller; a worker's answer is kept for the one who called.
        if at.session != DIRECT:
            self._quotas.refuse_stored(exchange.caller)
        return wire.encode_empty(await self._requests.respond(at, wire.decode_response(exchange.body)))

    async def release(self, exchange: Exchange) -> Reply:
        return wire.encode_empty(await self._requests.leave(self._at(exchange)))

    async def cancel(self, exchange: Exchange) -> Reply:
        caller = exchange.caller
        return wire.encode_request(self._told(await self._requests.cancel(caller, *_where(exchange))))

    async def show(self, exchange: Exchange) -> Reply:
        await self._replies.read(exchange)
        caller = exchange.caller
        call = await self._requests.show(self._who(exchange), caller, *_where(exchange))
        is_theirs = caller.owns(call.key.tenant, call.key.subject)
        return wire.encode_request(self._told(call), await self._questions.open(call, caller) if is_theirs else ())

    async def listed(self, exchange: Exchange) -> Reply:
        tool = query.text(exchange, "tool")
        tools = () if tool is None else (tool,)
        session, state = query.text(exchange, "session"), query.state(exchange, State.PENDING)
        most = query.limit(exchange, 50)

        def wanted(limit: int) -> ClaimFilter:
            return ClaimFilter(self._who(exchange), tools, session, state, limit)

        wait = query.wait(exchange)
        if not wait.is_over:  # many may wait for the same ones, so they are read when it is their turn
            await self._requests.listed(partial(wanted, 1), wait)
        await self._replies.read(exchange)
        found = await self._requests.listed(partial(wanted, most), Wait(0, exchange))
        return wire.encode_requests(list(map(self._told, found)))

    async def claim(self, exchange: Exchange) -> Reply:
        caller, name = exchange.caller, wire.decode_worker_name(exchange.headers)
        claim = wire.decode_claim(exchange.body)
        take = partial(self._requests.claim, partial(self._workers.who, caller, name), claim, exchange)
        claims = await self._intake.claims(caller, exchange, take)
        return wire.encode_claims(claims, self._lease_ms)

    async def renew(self, exchange: Exchange) -> Reply:
        who = self._who(exchange)
        return wire.encode_verdicts(await self._requests.renew(who, wire.decode_heartbeats(exchange.body)))

    def _who(self, exchange: Exchange) -> Claimant:
        caller = exchange.caller
        return self._workers.who(caller, wire.decode_worker_name(exchange.headers))

    def _at(self, exchange: Exchange) -> At:
        attempt = wire.decode_attempt(exchange.headers)
        return At(self._who(exchange), *_where(exchange), attempt, exchange.caller)


def _where(exchange: Exchange) -> tuple[str, str]:
    return exchange.parameters["sessionId"], exchange.parameters["requestId"]


def _post(path: str, handler: Handler, *, reads_json: bool = False, audit_as: AuditKind | None = None) -> Route:
    return Route("POST", path, handler, LIFECYCLE, reads_json=reads_json, audit_as=audit_as)
