"""The real application on a ledger, driven through ASGI on a loop that the machine owns: one node, or two.

Everything that anybody is told goes through here and is kept for the oracle, and so is all that the server logs.
"""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from subprocess import CalledProcessError
from typing import Any, TypeVar
from unittest import mock

from toolyard.lazy import load
from toolyard.model.caller import Caller
from toolyard.model.clock import Clock
from toolyard.model.errors import ToolyardError
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import Settings, exactly
from toolyard.store.values import SchemaTooNew, Usage
from toolyard.trust.requirements.provider import ProviderTokens

from . import canaries, wires
from .clock import ManualClock
from .ledgers import Ledger, Rows
from .programs import next_release
from .tools import GITHUB, HELD, INNER, toolkits
from .wires import Request
from .world import ANY, BEN, EVE, OPEN, OPERATOR, PROBER, TRUSTY, Heard, Listener, Person, World

T = TypeVar("T")
SHARED = "a-shared-secret-of-some-length!!"
RING = "5a" * 32
PATIENCE_S = 15.0
"""So long an answer may take that nothing stands in the way of: on a busy machine, too."""
RETENTION_S, KEY_TTL_S, LEASE_S, APPROVAL_S, TOTAL_S = 100.0, 1000.0, 30.0, 3000.0, 6000.0
CALLS_A_MINUTE = 3
RESTORE_S = 2.0
"""So long it takes at least to go back to a copy."""
HOME = "http://localhost"


@dataclass(frozen=True)
class Options:
    """How a server is set up."""

    audit: str = "on"
    trusts: bool = False
    """Whether the settings say whose workers are trusted."""

    def settings(self, store: str) -> dict[str, Any]:
        given: dict[str, Any] = {
            "store": store,
            "secret_key": [RING],
            "jwt_secret": SHARED,
            "audit": self.audit,
            "audit_input": True,
            "retention_s": RETENTION_S,
            "key_ttl_s": KEY_TTL_S,
            "lease_s": LEASE_S,
            "approval_wait_s": APPROVAL_S,
            "claim_wait_s": 300.0,
            "answer_wait_s": 300.0,
            "total_timeout_s": TOTAL_S,
            "sync_wait_s": 0.05,
            "queue_wait_s": 5.0,
            "grace_s": 0.01,
            "show_exceptions": True,
            "processes": 1,
            "limits": [
                {"name": "few", "who": {"subject": BEN.subject}, "calls_per_minute": CALLS_A_MINUTE},
            ],
            "providers": [{"preset": "github", "client_id": "us", "client_secret": "not-much-of-one"}],
        }
        if self.trusts:
            given["workers"] = [{"who": {"subject": TRUSTY.subject}, "trusted": True}, {}]
        return given


class Lines(logging.Handler):
    """All that is logged while the stage stands."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@dataclass(eq=False)
class Exchange:
    """A request under way."""

    heard: Heard
    yard: Yard
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class Stage:
    """`run` what is asynchronous; it goes on only while something is run."""

    def __init__(self, ledger: Ledger, options: Options) -> None:
        self.ledger, self.options = ledger, options
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.world = World(self.clock)
        self.sources = toolkits(self.world)
        self.yards: list[Yard | None] = []
        self.exchanges: list[Exchange] = []
        self.mcp_sessions: dict[Person, str] = {}
        self._keys: dict[Person, str] = {}
        self.log = Lines()
        self.is_blocked = False
        self.is_upgraded = False
        """Whether servers that start are of the next release."""
        self._patch = mock.patch("toolyard.engine.upkeep.EVERY_S", 0.05)
        self._patch.start()
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self.log)
        root.setLevel(logging.INFO)
        self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # -- the server's life -------------------------------------------------------------------------

    async def _open(self) -> None:
        await self.ledger.open(self.clock.now)
        self.clock.followers.append(self.ledger.follow)
        for node in range(self.ledger.nodes):
            self.yards.append(None)
            await self._start(node)
        await self._make_key(EVE)
        for name, pattern in ((HELD, "Sms.*"), (INNER, "Desk.*"), ("FAX_KEY", "Fax.*")):
            await self.set_secret(name, pattern)

    async def _start(self, node: int) -> None:
        """One that cannot start is a trouble, and stays away."""
        yard = self._yard()
        self._share_at_rest(yard)
        try:
            with self._program():
                async with asyncio.timeout(PATIENCE_S):
                    await yard.start()
        except Exception as error:
            self.world.troubles.append(f"the server did not start: {error!r:.300}")
            return
        self.yards[node] = yard

    def _yard(self) -> Yard:
        return Yard(self.sources, *self._operators())

    def _share_at_rest(self, yard: Yard) -> None:
        """Nodes compare the ledger's clock with their own when they share their usage, and no real clock jumps by an
        hour just then: a minute that was long ago would count as this one."""
        share = yard.store.share_usage

        async def at_rest(news: Sequence[Usage]) -> tuple[float, list[Usage]]:
            async with self.clock.moving:
                return await share(news)

        yard.store.share_usage = at_rest  # type: ignore[method-assign]

    async def stop(self, node: int) -> None:
        yard, self.yards[node] = self.yards[node], None
        if yard is None:
            return
        yard.let_go()
        stopping = self.loop.create_task(yard.stop())  # not cancelled: one that hangs would hang in that, too
        await asyncio.wait((stopping,), timeout=PATIENCE_S)
        if not stopping.done():
            self.world.troubles.append("the server did not stop")
        for exchange in self.exchanges:
            exchange.gone.set()
        await self._give_up([each.task for each in self.exchanges if each.yard is yard and each.task is not None])
        self.mcp_sessions.clear()

    async def _give_up(self, requests: "list[asyncio.Task[None]]") -> None:
        """What every HTTP server does with requests that outlive its grace."""
        late = set(requests)
        if late:
            _, late = await asyncio.wait(late, timeout=1.0)
        for task in late:
            task.cancel()

    async def restart(self, node: int) -> None:
        self.world.lose_runs()
        await self.stop(node)
        await self._start(node)

    async def upgrade(self, node: int) -> None:
        """One node is replaced by one of the next release, which migrates; the others go on, and none of the release
        before starts any more."""
        self.is_upgraded = True
        await self.restart(node)
        if self.ledger.nodes > 1:
            older = self._yard()
            try:
                await older.start()
            except SchemaTooNew:
                return
            await older.stop()
            self.world.troubles.append("a program started on the ledger of a newer one")

    def copy_ledger(self) -> None:
        """While the servers work."""
        waiting = {str(call["input"].get("mark")) for call in self.run(self.calls()) if call["state"] in OPEN}
        has = self.world.what_a_copy_has(waiting)  # before it: what comes meanwhile need not be in it
        with self._in_order("the ledger could not be copied"):
            self.ledger.copy(*self._operators())
            self.world.copied = has

    def go_back(self) -> None:
        """All servers stop, and the ledger goes back to the copy that was made last."""
        copied = self.world.copied
        if copied is None:
            return
        self.world.lose_runs()
        for node in range(len(self.yards)):
            self.run(self.stop(node))
        self.world.go_back(copied)
        self.run(self.clock.advance(RESTORE_S))
        self.run(self.ledger.leave())
        with self._in_order("the ledger could not be restored"):
            self.ledger.restore(*self._operators())
        self.run(self.ledger.open(self.clock.now))
        for node in range(len(self.yards)):
            self.run(self._start(node))

    def _operators(self) -> tuple[Settings, Clock]:
        """What an operator's verb is given."""
        settings = exactly(**self.options.settings(self.ledger.store))
        return settings, Clock(self.clock, self.clock.monotonic)

    @contextmanager
    def _in_order(self, trouble: str) -> Iterator[None]:
        """What an operator does beside the servers, with the program that they are of."""
        try:
            with self._program():
                yield
        except (ToolyardError, CalledProcessError) as error:
            said = error.stderr if isinstance(error, CalledProcessError) else error
            self.world.troubles.append(f"{trouble}: {said!r:.500}")

    def _program(self) -> AbstractContextManager[None]:
        """Whoever opens the ledger: the program of this release, or of the next one."""
        return next_release() if self.is_upgraded else nullcontext()

    async def leave_clients(self) -> None:
        """Whoever still waits for an answer goes away."""
        for exchange in self.exchanges:
            exchange.gone.set()
        tasks = [exchange.task for exchange in self.exchanges if exchange.task is not None]
        self.exchanges = []
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)

    def close(self) -> None:
        """In any case, whatever state it is in."""
        try:
            self.run(self._close())
        finally:
            self._patch.stop()
            logging.getLogger().removeHandler(self.log)
            logging.getLogger().setLevel(self._level)
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.run(asyncio.sleep(0.01))
            self.loop.close()

    async def _close(self) -> None:
        await self.ledger.unblock()
        self.world.open_gates()
        for node in range(len(self.yards)):
            await self.stop(node)
        await self.ledger.close()

    @property
    def up(self) -> list[Yard]:
        return [yard for yard in self.yards if yard is not None]

    # -- asking it something -----------------------------------------------------------------------

    def send(self, to: Listener, request: Request, node: int = 0, **more: str) -> Heard:
        """Begins it. `more` are headers."""
        data = _encoded(request.body)
        headers = {"host": "localhost", **self._credentials(to), **request.headers, **more}
        if data:
            headers = {"content-type": "application/json", **headers, "content-length": str(len(data))}
        heard = Heard(to, f"{request.method} {request.path} {data.decode()[:400]}", self.clock.elapsed)
        self.world.heard.append(heard)
        yards = self.up
        if not yards:
            heard.done.set()
            return heard
        yard = yards[node % len(yards)]
        exchange = Exchange(heard, yard)
        exchange.task = self.loop.create_task(_exchanged(yard, _scope(request, headers), data, exchange))
        self.exchanges.append(exchange)
        return heard

    async def glance(self, to: Listener, request: Request, node: int = 0) -> None:
        """Reads what comes at once of something that has no end, and goes away."""
        heard = self.send(to, request, node)
        await within(heard.begun.wait(), 0.2)
        for exchange in self.exchanges:
            if exchange.heard is heard:
                exchange.gone.set()

    async def ask(self, to: Listener, request: Request, node: int = 0, **more: str) -> Heard:
        """And waits for the whole answer. None at all is a trouble."""
        heard = self.send(to, request, node, **more)
        if not await within(heard.done.wait(), PATIENCE_S):
            self.world.troubles.append(f"nobody answered {heard.request}")
        return heard

    def _credentials(self, to: Listener) -> dict[str, str]:
        if to.is_operator:
            return {}  # each node has a token of its own
        if to.person is None:
            return {}
        if to.person in self._keys:
            return {"oxp-api-key": self._keys[to.person]}
        claims = {"sub": to.person.subject, "tenant": to.person.tenant, "exp": int(self.clock.now + 600)}
        if to.person.scope:
            claims["scope"] = to.person.scope
        token: str = load("signed_token")(claims, SHARED)
        return {"authorization": f"Bearer {token}"}

    async def operate(self, method: str, path: str, body: Any = None, node: int = 0) -> Heard:
        """As whoever runs the server."""
        yards = self.up
        token = yards[node % len(yards)].operators_token.text if yards else ""
        return await self.ask(OPERATOR, Request(method, path, body), node, authorization=f"Bearer {token}")

    async def mcp_session(self, person: Person, node: int = 0) -> str:
        """Of the older era; one is enough for everything."""
        if person not in self.mcp_sessions:
            heard = await self.ask(Listener(person, ANY), wires.hello(), node)
            self.mcp_sessions[person] = heard.headers.get("mcp-session-id", "")
        return self.mcp_sessions[person]

    # -- what whoever runs it does -----------------------------------------------------------------

    async def set_secret(self, name: str, pattern: str) -> None:
        value = self.world.new_secret(name)
        body = {"value": value, "tools": [pattern]}
        heard = await self.operate("PUT", f"/v1/admin/secrets/acme/{name}", body)
        assert heard.status == 200, heard.body

    async def _make_key(self, person: Person) -> None:
        """From now on it comes with an API key."""
        body = {"name": person.subject, "tenant": person.tenant, "subject": person.subject}
        heard = await self.operate("POST", "/v1/admin/keys", body)
        self._keys[person] = heard.json["key"]
        heard.to = replace(OPERATOR, secrets=frozenset({"an API key"}))
        self.world.secrets["an API key"] = canaries.forms(heard.json["key"])

    async def new_key(self, person: Person, node: int) -> tuple[str, str]:
        """One more of theirs: its name, and the key."""
        name = f"key-{len(self.world.heard)}"
        heard = await self.operate(
            "POST", "/v1/admin/keys", {"name": name, "tenant": person.tenant, "subject": person.subject}, node
        )
        heard.to = replace(OPERATOR, secrets=frozenset({name}))
        self.world.secrets[name] = canaries.forms(heard.json["key"])
        return name, heard.json["key"]

    async def connect(self, tenant: str, user: str) -> None:
        """Somebody connects an account, without a way through its provider's pages."""
        yard = self.up[0]
        assert yard.connecting is not None
        token = self.world.new_secret(f"account of {tenant}/{user}")
        whose = Caller(tenant, "somebody", user)
        await yard.connecting.connections.keep(whose, GITHUB, ProviderTokens(token, None, None, None), (), user)

    async def sweep(self) -> None:
        """What is overdue ends, and what is old goes, as it would by itself a little later."""
        for yard in self.up:
            for work in (yard.store.expire, yard.store.sweep):
                while await work(500) == 500:
                    pass

    # -- what can be seen of it --------------------------------------------------------------------

    async def calls(self) -> list[dict[str, Any]]:
        """As an operator is shown them."""
        heard = await self.operate("GET", "/v1/admin/calls?limit=200")
        found = heard.json["calls"] if heard.status == 200 else []
        return [call for call in found if call["caller"] != PROBER.subject]

    async def rows(self) -> Rows:
        return await self.ledger.rows()


async def within(work: Awaitable[Any], seconds: float) -> bool:
    """Whether it came to an end in that time."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        return False
    return True


async def _exchanged(yard: Yard, scope: dict[str, Any], body: bytes, exchange: Exchange) -> None:
    heard, waiting = exchange.heard, [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await exchange.gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            heard.status = message["status"]
            heard.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            return
        heard.body += message.get("body", b"")
        heard.begun.set()
        if not message.get("more_body"):
            heard.done.set()

    try:
        await yard.asgi(scope, receive, send)
    finally:
        heard.begun.set()
        heard.done.set()


def _scope(request: Request, headers: dict[str, str]) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    return {
        "type": "http", "method": request.method, "path": path, "raw_path": path.encode(),
        "query_string": query.encode(), "root_path": "", "scheme": "http", "client": ("127.0.0.1", os.getpid()),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }  # fmt: skip


def _encoded(body: Any) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()
