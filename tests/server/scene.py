"""A server on which somebody owns one of everything, and others who ask for it."""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Self

from msgspec import Struct, field

from toolyard import Context, Embedded, Toolkit
from toolyard.lazy import load
from toolyard.model.api_key import ApiKey
from toolyard.model.caller import Caller
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.protocol.event_ids import Places
from toolyard.server.mcp.protocol.peer import Peer
from toolyard.server.settings.table import exactly
from toolyard.wires.contract import Reply, Stream
from toolyard.wires.mcp.revisions import R_2025_11_25

SECRET = "a-shared-secret-of-some-length!!"
CANARY = "canary-in-the-mine"
NEWER, OLDER = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol/"
HOLDERS = {"owner": ("acme", "ada"), "neighbour": ("acme", "bob"), "foreigner": ("other", "ada")}
STRANGERS = ("neighbour", "foreigner")
OUTSIDERS = ("anonymous", "expired", "revoked")
CAN: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {META + "tasks": {}}}

kit = Toolkit("Safe")


@kit.tool
async def keep(text: str) -> str:
    """Keeps a text."""
    return text


@kit.tool
async def give(text: str) -> Embedded:
    """Gives a resource."""
    return Embedded(f"safe://{text}", text=text)


@kit.tool(task="optional")
async def ask(text: str, ctx: Context) -> str:
    """Asks for a name."""
    return str(await ctx.ask(f"{text}?", {"type": "object", "properties": {"name": {"type": "string"}}}, name="who"))


def settings(**more: Any) -> Any:
    return exactly(**{"jwt_secret": SECRET, "sync_wait_s": 60, "grace_s": 0.01} | more)


class Nobody:
    """Reads what a handler returns, and hears of nothing else."""

    def __init__(self) -> None:
        self.early: asyncio.Future[Reply | Stream] = asyncio.get_running_loop().create_future()

    def answer(self, reply: Reply | Stream) -> None:
        if not self.early.done():
            self.early.set_result(reply)

    def when_gone(self, callback: Callable[[], object]) -> None:
        """It stays."""


class Answer(Struct):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def masked(self, *names: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Without the names that the question had in it."""
        body = self.body
        for name in names:
            body = body.replace(name.encode(), b"NAME")
        headers = sorted((name, value) for name, value in self.headers if name not in (b"mcp-session-id", b"etag"))
        return self.status, headers, body


class Owned(Struct):
    """The names of what the owner has, or, of `nothing`, of what nobody has."""

    call: str
    session: str
    request: str
    worker: str
    mcp_session: str
    task: str
    asking: str
    state: str
    uri: str
    event: str

    def all(self) -> tuple[str, ...]:
        return (self.call, self.session, self.request, self.worker, self.mcp_session, self.task, self.asking,
                self.state, self.uri)  # fmt: skip


class Scene(Struct):
    """`async with` it."""

    yard: Yard = field(default_factory=lambda: Yard([kit], settings()))
    credentials: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    handling: list[asyncio.Task[Any]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        await self.yard.start()
        for role, (tenant, subject) in HOLDERS.items():
            self.credentials[role] = _bearer(_token(tenant, subject, 600))
        self.credentials["anonymous"] = {}
        self.credentials["expired"] = _bearer(_token("acme", "ada", -60))
        self.credentials["revoked"] = _bearer(await self._revoked_key())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.yard.let_go()
        await self.yard.stop()
        for handling in self.handling:
            handling.cancel()
        await asyncio.gather(*self.handling, return_exceptions=True)

    async def send(
        self, role: str, method: str, path: str, body: Any = None, headers: Mapping[bytes, bytes] | None = None
    ) -> Answer:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {b"host": b"localhost", **self.credentials[role], **(headers or {})}
        if data:
            given = {b"content-type": b"application/json", **given, b"content-length": b"%d" % len(data)}
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "scheme": "http", "headers": list(given.items()), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        line = Nobody()
        handling = asyncio.create_task(self.yard.asgi.respond(scope, None, data, line))  # type: ignore[arg-type]
        self.handling.append(handling)
        await asyncio.wait((handling, line.early), return_when=asyncio.FIRST_COMPLETED)
        found = line.early.result() if line.early.done() else handling.result()
        assert found is not None
        if isinstance(found, Stream):
            chunk = await anext(aiter(found.chunks), b"")
            await found.chunks.aclose()  # type: ignore[attr-defined]
            return Answer(found.status, found.headers, chunk)
        return Answer(found.status, found.headers, b"".join((found.body, *found.more)))

    async def send_form(self, path: str, fields: bytes, headers: Mapping[bytes, bytes]) -> Answer:
        """As a browser does."""
        media = {b"content-type": b"application/x-www-form-urlencoded"}
        return await self.send("anonymous", "POST", path, fields, {**headers, **media})

    async def newer(
        self, role: str, method: str, params: dict[str, Any], name: str | None = None, can: Mapping[str, Any] = CAN
    ) -> Answer:
        about = {f"{META}protocolVersion": NEWER, f"{META}clientCapabilities": can, f"{META}clientInfo": {}}
        headers = {b"mcp-protocol-version": NEWER.encode(), b"mcp-method": method.encode()}
        if name is not None:
            headers[b"mcp-name"] = name.encode()
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}
        return await self.send(role, "POST", "/mcp", body, headers)

    async def older(self, role: str, method: str, params: dict[str, Any], session: str = "") -> Answer:
        headers = {b"mcp-protocol-version": OLDER.encode()}
        if session:
            headers[b"mcp-session-id"] = session.encode()
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.send(role, "POST", "/mcp", body, headers)

    def bearer(self, tenant: str, subject: str, **claims: str) -> dict[bytes, bytes]:
        """Of somebody else."""
        return _bearer(_token(tenant, subject, 600, **claims))

    async def opened(self, role: str) -> str:
        """An MCP session."""
        hello = {"protocolVersion": OLDER, "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}}
        reply = await self.older(role, "initialize", hello)
        return dict(reply.headers)[b"mcp-session-id"].decode()

    async def furnish(self) -> Owned:
        """One of everything, for the owner."""
        call = {"tool_id": "Safe.Keep", "call_id": "owned-call", "input": {"text": CANARY}}
        assert (await self.send("owner", "POST", "/tools/call", call)).json["success"]
        tool = {"name": "find", "description": CANARY, "input_schema": {"type": "object"}}
        session = (await self.send("owner", "POST", "/v1/sessions", {"tools": [tool]})).json["sessionId"]
        use = {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t-1", "name": "find", "input": {"x": CANARY}}],
        }
        taken = await self.send("owner", "POST", f"/v1/sessions/{session}/messages", use)
        request = taken.json["requests"][0]["requestId"]
        offered = {"tools": [{"id": "Far.Look", "description": CANARY, "input_schema": {"type": "object"}}]}
        assert (await self.send("owner", "PUT", "/v1/workers/robot", offered)).status == 200
        mcp_session = await self.opened("owner")
        arguments = {"name": "Safe_Keep", "arguments": {"text": CANARY}, "task": {"ttl": 60000}}
        task = (await self.older("owner", "tools/call", arguments, mcp_session)).json["result"]["task"]["taskId"]
        given = await self.newer(
            "owner", "tools/call", {"name": "Safe_Give", "arguments": {"text": CANARY}}, "Safe_Give"
        )
        uri = given.json["result"]["content"][0]["resource"]["uri"]
        asks = {"name": "Safe_Ask", "arguments": {"text": CANARY}}
        state = (await self.newer("owner", "tools/call", asks, "Safe_Ask")).json["result"]["requestState"]
        parked = [call for call in await self._calls("owner") if call.get("waitingFor") == "answer"]
        asking = parked[0]["callId"]
        row = await self.yard.store.get("acme", "ada", asking)
        assert row is not None
        peer = Peer(R_2025_11_25, Caller("acme", "ada"), {}, session=mcp_session)
        event = Places(self.yard._ring).id_of((row.seq, 0, 1), peer)
        return Owned("owned-call", session, request, "robot", mcp_session, task, asking, state, uri, event)

    def nothing(self, owned: Owned) -> Owned:
        """As long as what there is, and of the same kinds."""
        return Owned(
            "nobodys-cl", f"ses_{secrets.token_hex(16)}", "t-0", "spook", f"{secrets.token_hex(16)}.{'A' * 16}",
            secrets.token_hex(16), secrets.token_hex(16), owned.state[:-8] + "AAAAAAAA", "safe://nothing",
            owned.event[:-8] + "AAAAAAAA",
        )  # fmt: skip

    async def _calls(self, role: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.send(role, "GET", "/v1/calls")).json["calls"]
        return listed

    async def _revoked_key(self) -> str:
        key = "ty_" + secrets.token_hex(20)
        await self.yard.store.api_keys.put(ApiKey("old", sha256(key.encode()).digest(), "acme", "ada"))
        await self.yard.store.api_keys.revoke("old")
        await self.yard._keys.sync()
        return key


Ask = Callable[[Scene, str, Owned], Awaitable[Answer]]


def _bearer(credential: str) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + credential.encode()}


def _token(tenant: str, subject: str, ttl_s: float, **claims: str) -> str:
    said = {"sub": subject, "tenant": tenant, "exp": int(time.time() + ttl_s), **claims}
    made: str = load("signed_token")(said, SECRET)
    return made
