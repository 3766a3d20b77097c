"""An MCP server of any one revision, over pipes or HTTP, with a tool for everything that a tool can do.

It is written for these tests alone and knows nothing of toolyard: one revision, spoken as its document says, and any
other refused. `python bazaar.py REVISION` speaks over standard input and output, `python bazaar.py REVISION PORT` over
HTTP. What it wants to tell a test it writes to the file that the variable BAZAAR_NOTES names.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

PREFIX = "io.modelcontextprotocol/"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FORM = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
ANY = {"type": "object", "properties": {}}
Message = dict[str, Any]


def note(text: str) -> None:
    if "BAZAAR_NOTES" in os.environ:
        with Path(os.environ["BAZAAR_NOTES"]).open("a") as file:
            file.write(text + "\n")


def text(said: str) -> Message:
    return {"content": [{"type": "text", "text": said}]}


class Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Asked(Exception):
    """In the newer era a tool that asks ends its request with the questions."""

    def __init__(self, requests: Message, state: str) -> None:
        self.result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}


class Request:
    """One request of a client: who asks, and the way back."""

    def __init__(self, bazaar: "Bazaar", message: Message, send: Callable[[Message], Awaitable[None]]) -> None:
        self.bazaar, self.id, self.params, self._send = bazaar, message["id"], message.get("params") or {}, send
        self.meta = self.params.get("_meta") or {}

    async def tell(self, method: str, params: Message) -> None:
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, name: str, method: str, params: Message) -> Message:
        if self.bazaar.is_modern:
            responses = self.params.get("inputResponses") or {}
            if name in responses:
                assert self.params.get("requestState") == f"state of {name}"
                return dict(responses[name])
            raise Asked({name: {"method": method, "params": params}}, f"state of {name}")
        id = f"ask-{next(self.bazaar.ids)}"
        answer = self.bazaar.answers[id] = asyncio.get_running_loop().create_future()
        await self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return dict(await answer)


class Bazaar:
    """The server: its tools, and the methods of its revision."""

    def __init__(self, revision: str) -> None:
        self.revision, self.is_modern = revision, revision == "2026-07-28"
        self.has_structured, self.has_tasks = revision != "2025-03-26", revision >= "2025-11-25"
        self.ids = count(1)
        self.answers: dict[str, asyncio.Future[Message]] = {}
        self.running: dict[Any, asyncio.Task[Any]] = {}
        self.tasks: dict[str, Message] = {}
        self.streams: list[Callable[[Message], Awaitable[None]]] = []
        self.names = ["echo", "sum", "picture", "steps", "form", "page", "sample", "folders", "wait", "fail", "grow"]
        self.names += ["job"] if self.has_tasks else []

    # -- methods -----------------------------------------------------------------------------------

    async def answer(self, message: Message, send: Callable[[Message], Awaitable[None]]) -> Message:
        """The response to a request."""
        request = Request(self, message, send)
        self.running[message["id"]] = asyncio.current_task()  # type: ignore[assignment]
        try:
            self.check(message, request)
            result = await self.result(message["method"], request)
        except Refused as refused:
            return {"jsonrpc": "2.0", "id": message["id"], "error": refused.error}
        except Asked as asked:
            result = asked.result
        except asyncio.CancelledError:
            note(f"cancelled {request.params.get('name')}")
            raise
        finally:
            self.running.pop(message["id"], None)
        if self.is_modern:
            result = {"resultType": "complete", "_meta": {PREFIX + "serverInfo": self.info}} | result
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    info = {"name": "bazaar", "version": "3.1.4"}

    def check(self, message: Message, request: Request) -> None:
        if self.is_modern and request.meta.get(PREFIX + "protocolVersion") != self.revision:
            raise Refused(-32022, "Unsupported protocol version", {"supported": [self.revision]})
        if not self.is_modern and message["method"] == "server/discover":
            raise Refused(-32601, "Method not found")

    async def result(self, method: str, request: Request) -> Message:
        if method == "initialize" and not self.is_modern:
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            return {"protocolVersion": self.revision, "capabilities": capabilities, "serverInfo": self.info}
        if method == "server/discover":
            return {"supportedVersions": [self.revision], "capabilities": {"tools": {"listChanged": True}}}
        if method == "tools/list":
            return {"tools": [self.definition(name) for name in self.names], "ttlMs": 1000, "cacheScope": "public"}
        if method == "tools/call":
            return await self.call(request)
        if method.startswith("tasks/"):
            return self.task(method, request)
        if method in ("ping", "logging/setLevel"):
            return {}
        raise Refused(-32601, f"Method not found: {method}")

    def definition(self, name: str) -> Message:
        made: Message = {"name": name, "description": f"The tool {name}.", "inputSchema": {**ANY}}
        if name == "echo":
            made["inputSchema"] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
            made["annotations"] = {"readOnlyHint": True}
            made["_meta"] = {"ui": {"resourceUri": "ui://bazaar/echo"}}
        if name == "sum":
            numbers = {"a": {"type": "number"}, "b": {"type": "number"}}
            made["inputSchema"] = {"type": "object", "properties": numbers, "required": ["a", "b"]}
            if self.has_structured:
                made["outputSchema"] = {"type": "object", "properties": {"sum": {"type": "number"}}}
        if name == "job" and not self.is_modern:
            made["execution"] = {"taskSupport": "required"}
        return made

    # -- tools -------------------------------------------------------------------------------------

    async def call(self, request: Request) -> Message:
        name, arguments = request.params["name"], request.params.get("arguments") or {}
        if name not in self.names:
            raise Refused(-32602, f"Unknown tool: {name}")
        note(f"called {name} {json.dumps(request.meta, sort_keys=True)}")
        tool: Callable[[Request, Message], Awaitable[Message]] = getattr(self, f"do_{name}", self.do_grown)
        return await tool(request, arguments)

    async def do_echo(self, request: Request, arguments: Message) -> Message:
        return text(arguments["text"])

    async def do_sum(self, request: Request, arguments: Message) -> Message:
        value = {"sum": arguments["a"] + arguments["b"]}
        return text(json.dumps(value)) | ({"structuredContent": value} if self.has_structured else {})

    async def do_picture(self, request: Request, arguments: Message) -> Message:
        picture = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        link = {"type": "resource_link", "uri": "bazaar://stall/1", "name": "stall"}
        blocks = [{"type": "text", "text": "a dot"}, picture, *([link] if self.has_structured else [])]
        return {"content": blocks, "_meta": {"vendor/stall": {"number": 1}}}

    async def do_steps(self, request: Request, arguments: Message) -> Message:
        for step in range(1, 4):
            progress = {"progressToken": request.meta.get("progressToken"), "progress": step, "total": 3}
            await request.tell("notifications/progress", progress)
            await request.tell("notifications/message", {"level": "info", "data": f"step {step}"})
        return text("stepped")

    async def do_form(self, request: Request, arguments: Message) -> Message:
        mode = {"mode": "form"} if self.has_tasks else {}
        question = {**mode, "message": "Which colour?", "requestedSchema": FORM}
        return text(json.dumps(await request.ask("colour", "elicitation/create", question), sort_keys=True))

    async def do_page(self, request: Request, arguments: Message) -> Message:
        page = {"mode": "url", "message": "Look here", "url": "https://example.com/stall", "elicitationId": "e1"}
        return text(json.dumps(await request.ask("page", "elicitation/create", page)))

    async def do_sample(self, request: Request, arguments: Message) -> Message:
        messages = [{"role": "user", "content": {"type": "text", "text": "Say something"}}]
        answer = await request.ask("model", "sampling/createMessage", {"messages": messages, "maxTokens": 10})
        return text(answer["content"]["text"])

    async def do_folders(self, request: Request, arguments: Message) -> Message:
        return text((await request.ask("folders", "roots/list", {}))["roots"][0]["uri"])

    async def do_wait(self, request: Request, arguments: Message) -> Message:
        note("waits")
        await asyncio.Event().wait()
        return {}

    async def do_fail(self, request: Request, arguments: Message) -> Message:
        picture = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
        return {"content": [{"type": "text", "text": "the stall is closed"}, picture], "isError": True}

    async def do_grow(self, request: Request, arguments: Message) -> Message:
        self.names.append("grown")
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}
        for send in self.streams:
            await send(changed)
        return text("it has grown")

    async def do_grown(self, request: Request, arguments: Message) -> Message:
        return text("grown")

    async def do_job(self, request: Request, arguments: Message) -> Message:
        id = f"task-{next(self.ids)}"
        keep, poll = ("ttlMs", "pollIntervalMs") if self.is_modern else ("ttl", "pollInterval")
        task = {"taskId": id, "status": "working", "createdAt": "2026-01-01T00:00:00Z", keep: 60000, poll: 10}
        self.tasks[id] = task | {"lastUpdatedAt": "2026-01-01T00:00:00Z"}
        return {"resultType": "task", **self.tasks[id]} if self.is_modern else {"task": self.tasks[id]}

    def task(self, method: str, request: Request) -> Message:
        task = self.tasks[request.params["taskId"]]
        if method == "tasks/cancel":
            note("cancelled a task")
            task["status"] = "cancelled"
        elif method == "tasks/result":
            return text("the job is done")
        elif task["status"] == "working":
            task["status"] = "completed"
            return dict(task | {"status": "working"})
        return dict(task) | ({"result": text("the job is done")} if self.is_modern else {})

    # -- what comes in ------------------------------------------------------------------------------

    def listens(self, wanted: Message) -> None:
        """A client of the newer era wants to hear of this."""

    def hear(self, message: Message) -> None:
        """A notification, or the answer to what a tool has asked."""
        if message.get("method") == "notifications/cancelled":
            task = self.running.get(message["params"]["requestId"])
            if task is not None:
                task.cancel()
        elif message.get("id") in self.answers:
            answer = self.answers.pop(message["id"])
            if "error" in message:
                answer.set_exception(Refused(-32603, f"the client says: {message['error'].get('message')}"))
            else:
                answer.set_result(message["result"])


# --- over pipes ----------------------------------------------------------------------------------


async def over_pipes(bazaar: Bazaar) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def send(message: Message) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def serve(message: Message) -> None:
        await send(await bazaar.answer(message, send))

    if not bazaar.is_modern:
        bazaar.streams.append(send)
    kept = set()
    while line := await reader.readline():
        message = json.loads(line)
        if "method" in message and "id" in message:
            if message["method"] == "subscriptions/listen":
                bazaar.listens(message["params"]["notifications"])
                if send not in bazaar.streams:
                    bazaar.streams.append(send)
                await send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}})
                continue
            task = asyncio.create_task(serve(message))
            kept.add(task)
            task.add_done_callback(kept.discard)
        else:
            bazaar.hear(message)


# --- over HTTP -----------------------------------------------------------------------------------


class Http:
    """One address, with a session for each handshake, as an ASGI application."""

    def __init__(self, revision: str, make: Callable[[str], Bazaar] = Bazaar) -> None:
        self.revision, self.make, self.sessions = revision, make, {"": make(revision)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        if scope["method"] == "DELETE":
            self.sessions.pop(headers[b"mcp-session-id"].decode(), None)
            await reply(send, 204, b"")
            return
        session = headers.get(b"mcp-session-id", b"").decode()
        bazaar = self.sessions.get(session)
        if bazaar is None:
            await reply(send, 404, b"no such session")
        elif scope["method"] == "GET":
            await self.stream(bazaar, receive, send)
        else:
            await self.post(bazaar, json.loads(body), headers, receive, send)

    async def post(self, bazaar: Bazaar, message: Message, headers: Any, receive: Any, send: Any) -> None:
        if "method" not in message or "id" not in message:
            bazaar.hear(message)
            await reply(send, 202, b"")
            return
        if (
            not bazaar.is_modern
            and message["method"] not in ("initialize", "server/discover")
            and not headers.get(b"mcp-session-id")
        ):
            await reply(send, 400, b"Bad Request: no session")
            return
        more: list[tuple[bytes, bytes]] = []
        if bazaar.is_modern:
            assert headers[b"mcp-method"].decode() == message["method"]
        if message["method"] == "subscriptions/listen":
            bazaar.listens(message["params"]["notifications"])
            await self.stream(bazaar, receive, send, acknowledge=True)
            return
        if message["method"] == "initialize" and not bazaar.is_modern:
            session = f"session-{len(self.sessions)}"
            shared = bazaar
            self.sessions[session] = bazaar = self.make(self.revision)
            bazaar.names, bazaar.streams = shared.names, shared.streams
            more = [(b"mcp-session-id", session.encode())]
        await Exchange(send, receive, more).serve(bazaar, message)

    async def stream(self, bazaar: Bazaar, receive: Any, send: Any, *, acknowledge: bool = False) -> None:
        exchange = Exchange(send, receive, [])
        await exchange.begin()
        if acknowledge:
            await exchange.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}})
        bazaar.streams.append(exchange.event)
        while (await receive())["type"] != "http.disconnect":
            pass
        bazaar.streams.remove(exchange.event)


class Exchange:
    """The reply to one request: JSON where nothing comes before it, else a stream."""

    def __init__(self, send: Any, receive: Any, headers: list[tuple[bytes, bytes]]) -> None:
        self._send, self._receive, self._headers, self._is_stream = send, receive, headers, False

    async def serve(self, bazaar: Bazaar, message: Message) -> None:
        answering = asyncio.create_task(bazaar.answer(message, self.event))
        leaving = asyncio.create_task(self._receive())
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            if bazaar.is_modern:  # in the older era a closed stream is no word about the request
                answering.cancel()
            await asyncio.wait((answering,))
        leaving.cancel()
        if answering.cancelled():
            return
        response = answering.result()
        if self._is_stream:
            await self.event(response)
            await self._send({"type": "http.response.body", "body": b""})
        else:
            status = 400 if "error" in response and response["error"]["code"] <= -32020 else 200
            headers = [(b"content-type", b"application/json"), *self._headers]
            await reply(self._send, status, json.dumps(response).encode(), headers)

    async def begin(self) -> None:
        self._is_stream = True
        headers = [(b"content-type", b"text/event-stream"), *self._headers]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": b": here\n\n", "more_body": True})

    async def event(self, message: Message) -> None:
        if not self._is_stream:
            await self.begin()
        data = f"event: message\ndata: {json.dumps(message)}\n\n".encode()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


async def reply(send: Any, status: int, body: bytes, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    if len(sys.argv) > 2:
        import uvicorn

        uvicorn.run(Http(sys.argv[1]), port=int(sys.argv[2]), log_level="error")
    else:
        asyncio.run(over_pipes(Bazaar(sys.argv[1])))
