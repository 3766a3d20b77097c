"""Whatever a caller sends stays within a budget of time on the loop, of memory and of bytes in the ledger.

Each route and each method of MCP that a caller can use has a row, which drives it with the largest things that it
admits, while another caller calls. They are checked against the route table and the dispatcher's methods: a new one
without a row here is a failure.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.test_isolation import routes
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.protocol.eras import SETTINGS
from toolyard.server.settings.table import exactly
from toolyard.wires.mcp.assets import ASSET_LISTS

from . import tools
from .watching import KEYS, MIB, Gone, Loud, Reply, Server, Watch, wait_until

LOOP_S = 4.0
"""How much processor time the server may use before another caller is answered. Four megabytes of JSON take a good part
of a second on a slow machine; what must not be takes ten and more."""
MEMORY = 768 * MIB
"""How much it may take for a while: four megabytes of JSON can be a hundred megabytes of objects."""
STORED = 56 * MIB
BODY = 4 * MIB - 4096
"""The largest body, but for what stands around it."""
LONG = "x" * 50_000
"""In a path or a query: headers have 64 KiB in all."""
NEWER, OLDER = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
CAN: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {PREFIX + "tasks": {}}}

Drive = Callable[[Loud], object]


@dataclass(frozen=True)
class Row:
    """`prepare` comes before anything is measured."""

    drive: Drive
    prepare: Drive = lambda loud: None
    loop_s: float = LOOP_S
    memory: int = MEMORY
    stored: int = STORED


# -- the largest things ----------------------------------------------------------------------------


def text(size: int = BODY) -> bytes:
    return b'"' + b"x" * (size - 2) + b'"'


def lists(size: int = BODY) -> bytes:
    """As many values as there can be."""
    return b"[" + b"[]," * (size // 3 - 1) + b"[]]"


def names(size: int = BODY) -> bytes:
    """As many members as there can be."""
    return b"{" + b",".join(b'"%07d":0' % number for number in range(size // 12)) + b"}"


def depths(size: int = BODY) -> bytes:
    """As deep as there can be, again and again."""
    one = b"[" * 50 + b"]" * 50
    return b"[" + (one + b",") * (size // 101 - 1) + one + b"]"


def digits(size: int = BODY) -> bytes:
    return b"9" * size


def floats(size: int = BODY) -> bytes:
    """As many of the numbers that are the slowest to read as there can be."""
    return b"[" + b"1e308," * (size // 12) + b"1e-308," * (size // 14 - 1) + b"5]"


def whole(size: int = BODY) -> bytes:
    """Floats that are integers to a schema."""
    return b"[" + b"1.0," * (size // 4 - 1) + b"5]"


def integers(size: int = BODY) -> bytes:
    """As many of the longest as there can be."""
    one = b"9" * 4299
    return b"[" + (one + b",") * (size // 4300 - 1) + b"9]"


def hidden(size: int = BODY) -> bytes:
    """Characters that a model is not to read unseen."""
    return b'"' + "\u202e".encode() * ((size - 2) // 3) + b'"'


SHAPES = (text, lists, names, depths, digits, floats, integers)
LARGE = "LARGE"


def made(around: Any, shape: Callable[[int], bytes], size: int = BODY) -> bytes:
    """Of JSON with LARGE somewhere in it."""
    whole = json.dumps(around).encode()
    return whole.replace(b'"LARGE"', shape(size - len(whole)))


def posted(method: str, path: str, around: Any, shapes: Any = SHAPES, **headers: str) -> Drive:
    def drive(loud: Loud) -> None:
        for shape in shapes:
            assert loud.send(method, path, made(around, shape), **headers).status < 500

    return drive


def asked(method: str, path: str, *more: str) -> Drive:
    """As it is, with the longest names, and with the longest query."""
    named = path.replace("{number}", "9" * 4000)
    for variable in ("{challenge}", "{call_id}", "{sessionId}", "{requestId}", "{name}", "{id}"):
        named = named.replace(variable, quote("ä" * 4000) if variable != "{requestId}" else "r" * 20_000)

    def drive(loud: Loud) -> None:
        for each in (named, f"{named}?{LONG}", f"{named}?" + "&".join(f"a{n}=b" for n in range(5000)), *more):
            assert loud.send(method, each).status < 500

    return drive


def form(path: str) -> Drive:
    def drive(loud: Loud) -> None:
        for body in (b"a=" + b"%41" * (BODY // 3), b"&".join(b"a%d=b" % number for number in range(300_000))):
            sent = path.replace("{number}", "1").replace("{id}", "1-A")
            reply = loud.send("POST", sent, body, Content_Type="application/x-www-form-urlencoded")
            assert reply.status < 500

    return drive


# -- sessions, requests and workers ----------------------------------------------------------------

FIND = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
_ids = itertools.count()


def opened(loud: Loud, **session: Any) -> str:
    reply = loud.send("POST", "/v1/sessions", {"tools": [FIND], **session})
    assert reply.status == 201, reply.body[:500]
    return str(reply.json["sessionId"])


def use(loud: Loud, session: str, shape: Callable[[int], bytes], size: int = BODY) -> str:
    """A tool use with a large input, which waits."""
    id = f"t{next(_ids)}"
    message = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "find", "input": {"value": LARGE}}],
    }
    reply = loud.send("POST", f"/v1/sessions/{session}/messages", made(message, shape, size))
    assert reply.status == 200, reply.body[:500]
    return id


class Held:
    """What a row prepares and then uses, by caller."""

    def __init__(self) -> None:
        self.of: dict[int, Any] = {}

    def put(self, loud: Loud, value: Any) -> None:
        self.of[id(loud)] = value

    def __call__(self, loud: Loud) -> Any:
        return self.of[id(loud)]


held = Held()


def with_uses(count: int, shape: Callable[[int], bytes] = text) -> Drive:
    def prepare(loud: Loud) -> None:
        session = opened(loud)
        held.put(loud, (session, [use(loud, session, shape) for _ in range(count)]))

    return prepare


def of_session(end: str, method: str = "GET", body: Any = None) -> Drive:
    def drive(loud: Loud) -> Reply:
        session, _ = held(loud)
        reply = loud.send(method, f"/v1/sessions/{session}{end}", body)
        assert reply.status == 200, reply.body[:500]
        return reply

    return drive


def of_request(path: str, method: str = "POST", around: Any = None) -> Drive:
    def drive(loud: Loud) -> None:
        session, requests = held(loud)
        for request, shape in zip(requests, itertools.cycle(SHAPES), strict=False):
            body = None if around is None else made(around, shape)
            reply = loud.send(method, path.format(sessionId=session, requestId=request), body)
            assert reply.status < 500, reply.body[:500]

    return drive


def answered(loud: Loud, shape: Callable[[int], bytes] = text) -> None:
    """With large results, so that there is something to be had."""
    session, requests = held(loud)
    for request in requests:
        body = made({"response": {"state": "COMPLETE", "result": LARGE}}, shape)
        assert loud.send("POST", f"/v1/tools/response/{session}/{request}", body).status == 200


def with_results(count: int, shape: Callable[[int], bytes] = text) -> Drive:
    """Large ones, of small uses: as many as there is room for."""

    def prepare(loud: Loud) -> None:
        session = opened(loud)
        held.put(loud, (session, [use(loud, session, text, 200) for _ in range(count)]))
        answered(loud, shape)

    return prepare


def all_results(loud: Loud) -> None:
    session, requests = held(loud)
    content = loud.send("GET", f"/v1/sessions/{session}/results").json["message"]["content"]
    assert [result["tool_use_id"] for result in content] == requests


def unread(path: str) -> Drive:
    """Large replies, on sixty connections that read nothing of them."""

    def drive(loud: Loud) -> None:
        session, requests = held(loud)
        asked = path.format(sessionId=session, requestId=requests[0])
        with ExitStack() as open_sockets:
            clients = [open_sockets.enter_context(loud.asking(asked)) for _ in range(60)]
            deadline = time.monotonic() + 5
            for client in clients:
                client.settimeout(max(0.01, deadline - time.monotonic()))
                with suppress(TimeoutError):
                    client.recv(1)

    return drive


def unfinished(loud: Loud) -> None:
    """As many bodies as an address has connections, each but for its last byte. Others are refused until they end."""
    with ExitStack() as open_sockets:
        clients = [open_sockets.enter_context(loud.sending("/v1/sessions", BODY)) for _ in range(100)]
        assert clients[-1].recv(12) == b"HTTP/1.1 429"


def with_a_large_result(loud: Loud) -> None:
    value = made({"tool_id": "Kit.Echo", "call_id": "large", "input": {"value": LARGE}}, text)
    assert loud.send("POST", "/tools/call", value).status == 200


def unread_replies(path: str, *messages: Any) -> Drive:
    """The same, of results that are asked for by messages."""

    def drive(loud: Loud) -> None:
        with ExitStack() as open_sockets:
            clients = [open_sockets.enter_context(loud.asking(path, each)) for each in islice(cycle(messages), 60)]
            deadline = time.monotonic() + 5
            has_replied = 0
            for client in clients:
                client.settimeout(max(0.01, deadline - time.monotonic()))
                with suppress(TimeoutError):
                    assert client.recv(12) == b"HTTP/1.1 200"
                    has_replied += 1
            assert has_replied > 0

    return drive


TOGETHER = {"tool_id": "Kit.Together", "input": {"count": 60, "size": 4 * MIB}}
LARGE_CALL = {"tool_id": "Kit.Large", "call_id": "again", "input": {"size": 16 * MIB}}
LARGE_CALLS = [
    LARGE_CALL | {"call_id": f"again-{number}", "input": {"size": 4 * MIB}} for number in range(10)
]  # as much as a caller may have kept
META = {"_meta": {"toolyard/callId": "again"}}
LARGE_MCP_CALL = {"name": "Kit_Large", "arguments": {"size": 16 * MIB}, **META}


def with_a_large_task(loud: Loud) -> None:
    in_session(loud)
    older(loud, "tools/call", {**LARGE_MCP_CALL, "task": {}})
    older(loud, "tasks/result", {"taskId": "again"})


def called_before(loud: Loud) -> None:
    assert loud.send("POST", "/tools/call", LARGE_CALL).status == 200


def each_called_before(loud: Loud) -> None:
    for each in LARGE_CALLS:
        assert loud.send("POST", "/tools/call", each).status == 200


def called_before_over_mcp(loud: Loud) -> None:
    in_session(loud)
    older(loud, "tools/call", LARGE_MCP_CALL)


def requests_with_results(loud: Loud) -> None:
    session, _ = held(loud)
    reply = loud.send("GET", f"/v1/tools/requests?state=COMPLETE&session={session}&limit=100")
    assert reply.status == 200, reply.body[:500]


def large_sessions(loud: Loud) -> None:
    """Beside which every other session is found."""
    for _ in range(5):
        assert loud.send("POST", "/v1/sessions", made({"metadata": {"x": LARGE}}, text)).status == 201


def many_tool_uses(loud: Loud) -> None:
    """As many as a message may have, and more than that."""
    session = opened(loud)
    for count in (1024, 20_000):
        content = [{"type": "tool_use", "id": f"m{n}", "name": "find", "input": {}} for n in range(count)]
        reply = loud.send("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": content})
        assert reply.status in (200, 422), reply.body[:500]


def uses_of_large_tools(loud: Loud) -> None:
    """Each of which changes a session that has megabytes of tools; and then a worker claims them."""
    properties: dict[str, Any] = {f"p{number}": {} for number in range(900)}
    tools = [FIND | {"name": f"t{n}", "input_schema": {"type": "object", "properties": properties}} for n in range(256)]
    session = opened(loud, tools=tools)
    content = [{"type": "tool_use", "id": f"l{n}", "name": f"t{n}", "input": {"p0": "v"}} for n in range(256)]
    reply = loud.send("POST", f"/v1/sessions/{session}/messages", {"role": "assistant", "content": content})
    assert reply.status == 200, reply.body[:500]
    claimed = loud.send("POST", "/v1/tools/claim", {"limit": 100, "session": session})
    assert claimed.status in (200, 422), claimed.body[:500]


def doubling(how: str, steps: int = 30) -> dict[str, Any]:
    """A schema in which each definition tries the next one twice."""
    refer = {"pointer": "#/$defs/d{}", "escaped": "#/%24defs/d{}", "anchor": "#d{}", "id": "urn:d{}"}[how]
    named = {"anchor": "$anchor", "id": "$id"}.get(how)
    defs: dict[str, Any] = {}
    for step in range(steps):
        names = {named: f"d{step}" if how == "anchor" else f"urn:d{step}"} if named else {}
        reference = {"$ref": refer.format(step + 1)}
        defs[f"d{step}"] = names | {"anyOf": [reference, reference]}
    last = {named: f"d{steps}" if how == "anchor" else f"urn:d{steps}"} if named else {}
    defs[f"d{steps}"] = last | {"type": "integer"}
    return {"type": "object", "properties": {"value": {"$ref": refer.format(0)}}, "$defs": defs}


def patterns(count: int = 200, repeat: int = 140) -> dict[str, Any]:
    """Each is small to write and large to compile."""
    return {
        "type": "object",
        "properties": {f"p{number}": {"type": "string", "pattern": f"^\\p{{L}}{{{repeat}}}{number}$"}
                       for number in range(count)},
    }  # fmt: skip


def chain(length: int) -> dict[str, Any]:
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs | {f"d{length}": {}}}


def wide(size: int = BODY // 2) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(size // 30)}}


HOSTILE: dict[str, dict[str, Any]] = {
    "doubling by pointers": doubling("pointer"),
    "doubling by escaped pointers": doubling("escaped"),
    "doubling by anchors": doubling("anchor"),
    "doubling by ids": doubling("id"),
    "patterns": patterns(),
    "a chain of references": chain(477),
    "a long chain of references": chain(5000),
    "many properties": wide(),
    "large enums": {"type": "object", "properties": {"x": {"enum": [f"{n:07}" for n in range(150_000)]}}},
}
"""What a stranger may bring as a schema."""
SAID_OTHERWISE = ("doubling by escaped pointers", "doubling by anchors")
"""Like another of them to whoever looks at it: a session brings these, and no worker does, too. Each takes two seconds
until it is given up."""


def brought(schema: dict[str, Any]) -> Drive:
    """By a session, which then uses it, whether or not it was taken."""

    def drive(loud: Loud) -> None:
        reply = loud.send("POST", "/v1/sessions", {"tools": [FIND | {"input_schema": schema}]})
        assert reply.status in (201, 422), reply.body[:500]
        if reply.status == 201:
            use(loud, reply.json["sessionId"], text, 1000)

    return drive


def offered(called: str, *definitions: dict[str, Any]) -> Drive:
    """By a worker. One of them is called then."""

    def drive(loud: Loud) -> None:
        reply = loud.send("PUT", f"/v1/workers/w{next(_ids)}", {"tools": list(definitions)})
        assert reply.status in (200, 409, 422, 429), reply.body[:500]
        assert loud.send("POST", "/tools/call", {"tool_id": called, "input": {"value": "x"}}).status < 500

    return drive


def many_tools(count: int, kit: str) -> Drive:
    """Tiny ones."""
    tool = {"input_schema": {"type": "object"}}
    return offered(f"{kit}.T0", *({"id": f"{kit}.T{number}", **tool} for number in range(count)))


def many_heartbeats(loud: Loud) -> None:
    beats = [{"sessionId": "s" * 30, "requestId": f"r{number}", "attempt": 1} for number in range(40_000)]
    for some in (beats[:1000], beats):
        assert loud.send("POST", "/v1/tools/heartbeats", {"heartbeats": some}).status < 500
    posted("POST", "/v1/tools/heartbeats", {"heartbeats": LARGE}, FEW)(loud)


def claimed(loud: Loud) -> None:
    reply = loud.send("POST", "/v1/tools/claim", {"limit": 100})
    assert reply.status == 200
    posted("POST", "/v1/tools/claim", {"tools": LARGE}, FEW)(loud)


def flood(loud: Loud) -> None:
    """Until there is no more room, or until there should long have been none."""
    body = made({"tool_id": "Kit.Echo", "input": {"value": LARGE}}, text)
    for number in range(60):
        if loud.send("POST", "/tools/call", body).status != 200:
            return
        # answered when all that came before it is written, however slow the disk is
        loud.send("POST", "/tools/call", {"tool_id": "Kit.Echo", "input": {"value": 1}, "call_id": f"flood-{number}"})


def many_mcp_sessions(loud: Loud) -> None:
    """Which say as much of themselves as they may."""
    for size in (60, 15):
        lists_of_lists = [[]] * (size * 1024 // 4)  # type: ignore[var-annotated]
        params = {"protocolVersion": OLDER, "capabilities": {"experimental": {"x": lists_of_lists}}, "clientInfo": {}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        for _ in range(200):
            if loud.send("POST", "/mcp", body).status != 200:
                break


def many_sessions(loud: Loud) -> None:
    """Each with many tools, whose schemas differ."""
    for number in range(20):
        schema = {"type": "object", "properties": {f"p{number}_{each}": {"type": "string"} for each in range(200)}}
        tools = [FIND | {"name": f"find{each}", "input_schema": schema} for each in range(100)]
        reply = loud.send("POST", "/v1/sessions", {"tools": tools})
        assert reply.status in (201, 422), reply.body[:500]


def at_once(count: int, send: Callable[[int], object]) -> None:
    """On as many connections."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(send, range(count)))


def refused_at_once(shape: Callable[[int], bytes]) -> Drive:
    """What is not even taken, ten times: no limit counts it."""

    def drive(loud: Loud) -> None:
        body = made({"metadata2": LARGE}, shape)
        at_once(10, lambda _: checked(loud.send("POST", "/v1/sessions", body)))
        body = made({"tool_id": "Kit.Nothing", "input": {"x": LARGE}}, shape)
        at_once(10, lambda _: checked(loud.send("POST", "/tools/call", body)))

    return drive


def messages_at_once(loud: Loud) -> None:
    """Ordinary ones, each of which takes a twentieth of a second."""
    session = opened(loud)
    tool_use = {"type": "tool_use", "id": "ID", "name": "find", "input": {"x": [1.7e308] * 50_000}}
    body = json.dumps({"role": "assistant", "content": [tool_use]}).encode()
    bodies = [body.replace(b'"ID"', b'"o%d"' % number) for number in range(60)]

    def send(number: int) -> None:
        assert loud.send("POST", f"/v1/sessions/{session}/messages", bodies[number]).status == 200

    at_once(len(bodies), send)


def large_results_at_once(loud: Loud) -> None:
    """Of as many calls as a caller may have, whose clients read them. Who is told to come back does so."""

    def send(number: int) -> None:
        reply = loud.send("POST", "/tools/call", TOGETHER)
        assert reply.status == 200, reply.body[:500]
        if len(reply.body) < 4 * MIB:
            wait_until(lambda: loud.send("GET", f"/v1/calls/{reply.json['call_id']}?wait=60").status == 200, "no end")

    at_once(60, send)


def large_keyed_results_at_once(loud: Loud) -> None:
    def send(number: int) -> None:
        call = TOGETHER | {"call_id": f"at-once-{number}"}
        wait_until(lambda: len(loud.send("POST", "/tools/call", call).body) > 4 * MIB, "no end")

    at_once(60, send)


# -- MCP -------------------------------------------------------------------------------------------


def newer(loud: Loud, method: str, params: Any, name: str | None = None, shape: Any = text) -> Reply:
    about = {f"{PREFIX}protocolVersion": NEWER, f"{PREFIX}clientCapabilities": CAN, f"{PREFIX}clientInfo": {}}
    headers = {"mcp_protocol_version": NEWER, "mcp_method": method, **({"mcp_name": name} if name else {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": about}}
    return checked(loud.send("POST", "/mcp", made(message, shape), **headers))


def initialized(loud: Loud) -> str:
    params = {"protocolVersion": OLDER, "capabilities": {"elicitation": {}}, "clientInfo": {}}
    reply = loud.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return reply.headers["mcp-session-id"]


def older(loud: Loud, method: str, params: Any, shape: Any = text) -> Reply:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    session = {"mcp_session_id": held(loud), "mcp_protocol_version": OLDER}
    return checked(loud.send("POST", "/mcp", made(message, shape), **session))


def checked(reply: Reply) -> Reply:
    assert reply.status < 500, reply.body[:500]
    return reply


def in_session(loud: Loud) -> None:
    held.put(loud, initialized(loud))


def older_row(method: str, *params: Any, shapes: Any = (text,), **bounds: Any) -> Row:
    def drive(loud: Loud) -> None:
        for each in params or ({"x": LARGE},):
            for shape in shapes if LARGE in json.dumps(each) else (text,):
                older(loud, method, each, shape)

    return Row(drive, in_session, **bounds)


def newer_row(method: str, *params: Any, name: str | None = None, shapes: Any = (text,), **bounds: Any) -> Row:
    def drive(loud: Loud) -> None:
        for each in params or ({"x": LARGE},):
            for shape in shapes if LARGE in json.dumps(each) else (text,):
                newer(loud, method, each, name, shape)

    return Row(drive, **bounds)


ECHO: Any = {"name": "Kit_Echo", "arguments": {"value": LARGE}}
TASK: Any = {"taskId": LARGE}
LISTEN: Any = {"notifications": {"resourceSubscriptions": LARGE}}


def of_large_task(drive: Callable[[Loud, str], object]) -> Drive:
    """About a task with a large result."""

    def driven(loud: Loud) -> None:
        asked = {**ECHO, "task": {}, "_meta": {"toolyard/callId": "large"}}
        task = older(loud, "tools/call", asked).json["result"]["task"]["taskId"]
        drive(loud, task)

    return driven


def until_done(loud: Loud, task: str) -> None:
    def is_done() -> bool:
        return bool(older(loud, "tasks/get", {"taskId": task}).json["result"]["status"] == "completed")

    wait_until(is_done, "the task does not end")
    older(loud, "tasks/result", {"taskId": task})


def asks(loud: Loud, answer: Callable[[Loud, str], object]) -> None:
    asked = older(loud, "tools/call", {"name": "Kit_Ask", "arguments": {}, "task": {}})
    answer(loud, asked.json["result"]["task"]["taskId"])


def large_answer(loud: Loud) -> None:
    def answer(loud: Loud, task: str) -> None:
        for shape in (text, lists):
            responses = {"who": {"action": "accept", "content": {"name": LARGE}}}
            newer(loud, "tasks/update", {"taskId": task, "inputResponses": responses}, task, shape)

    asks(loud, answer)


def with_a_broken_stream(loud: Loud) -> None:
    """Of a call with a large result, which has ended meanwhile."""
    session = {"mcp_session_id": initialized(loud), "mcp_protocol_version": OLDER}
    params = {"name": "Kit_Told", "arguments": {"size": 16 * MIB}, "_meta": {"progressToken": 1}}
    call = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}
    begun = loud.stream("POST", "/mcp", call, b"\nretry:", **session)
    held.put(loud, session | {"last_event_id": begun.partition(b"id: ")[2].partition(b"\n")[0].decode()})
    assert taken_up(loud).endswith(b"\n\n")


def taken_up(loud: Loud) -> bytes:
    return loud.stream("GET", "/mcp", **held(loud))


def taken_up_at_once(loud: Loud) -> None:
    at_once(60, lambda _: taken_up(loud))


def subscribed(loud: Loud) -> None:
    for number in range(1100):
        uri = f"a:{number}" + "x" * 1000
        if "error" in older(loud, "resources/subscribe", {"uri": uri}).json:
            return
    raise AssertionError("there is no end of subscriptions")


def batch(loud: Loud) -> None:
    """2025-03-26 alone: many at once."""
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {}}
    first = loud.send("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    session = first.headers["mcp-session-id"]
    pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(50_000)]
    checked(loud.send("POST", "/mcp", pings, mcp_session_id=session))


SECRETS: tuple[tuple[str, int], ...] = (
    ("x", 4 * MIB),
    ("%41%42", MIB),
    ("\\u0041", MIB),
    ("QUJD\n", MIB),
    ("a\\\\n&amp;", MIB // 2),
)


def named(loud: Loud) -> None:
    """By which every call is known."""
    call = {"tool_id": "Kit.Echo", "input": {"value": 1}}
    posted("POST", "/tools/call", call | {"trace_id": LARGE, "call_id": "t"}, (text,))(loud)
    posted("POST", "/tools/call", call | {"context": {"user_id": LARGE}, "call_id": "u"}, (text,))(loud)
    tool_use = {"type": "tool_use", "id": "n", "name": LARGE, "input": {}}
    message = {"role": "assistant", "content": [tool_use]}
    posted("POST", f"/v1/sessions/{opened(loud)}/messages", message, (text,))(loud)


def escaped_answer(loud: Loud) -> None:
    """A worker's, of nothing but escapes of what it was given."""
    kit = f"Escapes{next(_ids)}"
    needs = {"secrets": [{"id": "K"}]}
    tool = {"id": f"{kit}.X", "input_schema": {"type": "object"}, "requirements": needs}
    worker = {"toolyard_worker": f"w{next(_ids)}"}
    assert loud.send("PUT", f"/v1/workers/{worker['toolyard_worker']}", {"tools": [tool]}).status == 200
    call = {"tool_id": f"{kit}.X", "call_id": kit, "input": {}}
    loud.send("POST", "/tools/call", call | {"context": {"secrets": [{"id": "K", "value": "%" * 1000}]}})
    (claim,) = loud.send("POST", "/v1/tools/claim", {"tools": [f"{kit}.*"], "wait": 10}, **worker).json["claims"]
    body = {"response": {"state": "COMPLETE", "value": "%25" * (BODY // 3 - 100)}}
    assert loud.send("POST", f"/v1/tools/response/direct/{claim['requestId']}", body, **worker).status == 200


def scrubbed(loud: Loud) -> None:
    """Texts that have to be read in every way there is."""
    for each, times in SECRETS:
        call = {
            "tool_id": "Kit.Secretive",
            "input": {"text": each, "times": times},
            "context": {"secrets": [{"id": "KEY", "value": "s3cr3t/of+some&length"}]},
        }
        reply = loud.send("POST", "/tools/call", call)
        assert reply.status == 200, reply.body[:500]  # it may still run


# -- the rows --------------------------------------------------------------------------------------

CALL = {"tool_id": "Kit.Echo", "input": {"value": LARGE}}
NUMBERS = {"tool_id": "Kit.Total", "input": {"values": LARGE}}
DIFFERENT = {"tool_id": "Kit.Different", "input": {"values": LARGE}}
AT = "/v1/tools/request/{sessionId}/{requestId}"
FEW = (text, lists, floats, integers)

ROUTES: dict[tuple[str, str], Row] = {
    ("POST", "/tools/call"): Row(posted("POST", "/tools/call", CALL), stored=64 * MIB),
    **{("POST", path): Row(posted("POST", path, CALL, FEW)) for path in (
        "/call", "/oxp/tools/call", "/oxp/call", "/otc/tools/call", "/otc/call")},
    **{("POST", path): Row(posted("POST", path, {"request": CALL}, FEW)) for path in (
        "/otc/draft/tools/call", "/otc/draft/call")},
    **{("GET", path): Row(asked("GET", path)) for path in (
        "/tools", "/oxp/tools", "/otc/tools", "/otc/draft/tools", "/health", "/oxp/health", "/otc/health",
        "/otc/draft/health", "/", "/docs", "/style.css", "/openapi.json", "/ready", "/live", "/metrics",
        "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp",
        "/authorize/{challenge}", "/authorize/{challenge}/status", "/approvals/{id}", "/approvals/{id}/status",
        "/console", "/console/enter", "/console/tools", "/console/calls", "/console/calls/{number}",
        "/console/calls/{number}/input", "/console/approvals", "/v1/approvals")},
    **{("POST", path): Row(form(path)) for path in (
        "/approvals/{id}", "/console/enter", "/console/leave", "/console/calls/{number}/cancel",
        "/console/approvals/{id}/approve", "/console/approvals/{id}/reject")},
    **{("POST", f"/v1/approvals/{{id}}/{what}"): Row(
        posted("POST", f"/v1/approvals/1-A/{what}", {"reason": LARGE}, FEW)) for what in ("approve", "reject")},
    ("GET", "/v1/calls"): Row(asked("GET", "/v1/calls", "/v1/calls?limit=1000"), with_uses(2)),
    ("GET", "/v1/calls/{call_id}"): Row(asked("GET", "/v1/calls/{call_id}")),
    ("GET", "/v1/calls/{call_id}/content"): Row(asked("GET", "/v1/calls/{call_id}/content")),
    ("POST", "/v1/calls/{call_id}/cancel"): Row(asked("POST", "/v1/calls/{call_id}/cancel")),
    ("POST", "/v1/sessions"): Row(posted("POST", "/v1/sessions", {"metadata": {"x": LARGE}})),
    ("GET", "/v1/sessions/{sessionId}"): Row(of_session(""), with_uses(8), memory=16 * MIB),
    ("POST", "/v1/sessions/{sessionId}/messages"): Row(many_tool_uses, large_sessions),
    ("GET", "/v1/sessions/{sessionId}/results"): Row(all_results, with_results(9), memory=100 * MIB),
    ("GET", "/v1/sessions/{sessionId}/events"): Row(of_session("/events"), with_uses(3), memory=24 * MIB),
    ("GET", AT): Row(of_request(AT, "GET"), with_uses(1)),
    ("POST", f"{AT}/cancel"): Row(of_request(f"{AT}/cancel"), with_uses(1)),
    ("POST", f"{AT}/release"): Row(of_request(f"{AT}/release"), with_uses(1)),
    ("POST", f"{AT}/heartbeat"): Row(
        of_request(f"{AT}/heartbeat", around={"state": "ERROR", "error": LARGE}), with_uses(2)),
    ("POST", "/v1/tools/response/{sessionId}/{requestId}"): Row(
        of_request("/v1/tools/response/{sessionId}/{requestId}",
                   around={"response": {"state": "COMPLETE", "result": LARGE}}), with_uses(3)),
    ("GET", "/v1/tools/requests"): Row(
        asked("GET", "/v1/tools/requests", "/v1/tools/requests?limit=100"), with_uses(3)),
    ("POST", "/v1/tools/claim"): Row(claimed, with_uses(9)),
    ("POST", "/v1/tools/heartbeats"): Row(many_heartbeats),
    ("PUT", "/v1/workers/{name}"): Row(posted("PUT", "/v1/workers/one", {"tools": [
        {"id": "One.Tool", "description": LARGE, "input_schema": {"type": "object"}}]}, FEW)),
    ("DELETE", "/v1/workers/{name}"): Row(asked("DELETE", "/v1/workers/{name}")),
    ("POST", "/v1/workers/{name}/heartbeat"): Row(asked("POST", "/v1/workers/{name}/heartbeat")),
    **{("POST", path): Row(posted("POST", path, {"jsonrpc": "2.0", "id": 1, "method": LARGE}, FEW)) for path in (
        "/mcp", "/mcp/")},
    **{(method, path): Row(lambda loud, method=method, path=path: checked(  # type: ignore[misc]
        loud.send(method, path, mcp_session_id=LONG))) for path in ("/mcp", "/mcp/") for method in ("GET", "DELETE")},
}  # fmt: skip

METHODS: dict[tuple[str, str], Row] = {
    (OLDER, "tools/call"): older_row(
        "tools/call", ECHO, {"name": "Kit_Hidden", "arguments": {"size": 2 * MIB}}, shapes=FEW),
    (NEWER, "tools/call"): newer_row("tools/call", ECHO, name="Kit_Echo", shapes=FEW),
    (OLDER, "tools/list"): older_row("tools/list", {"cursor": LARGE}, {}),
    (NEWER, "tools/list"): newer_row("tools/list", {"cursor": LARGE}, {}),
    (OLDER, "ping"): older_row("ping"),
    (NEWER, "server/discover"): newer_row("server/discover"),
    (NEWER, "subscriptions/listen"): newer_row(
        "subscriptions/listen", LISTEN, {"notifications": {"taskIds": [f"t{number}" for number in range(200_000)]}},
        shapes=(lists,)),
    (OLDER, "tasks/get"): older_row("tasks/get", TASK),
    (OLDER, "tasks/result"): Row(of_large_task(until_done), in_session),
    (OLDER, "tasks/list"): older_row("tasks/list", {"cursor": LARGE}),
    (OLDER, "tasks/cancel"): older_row("tasks/cancel", TASK),
    (NEWER, "tasks/get"): newer_row("tasks/get", TASK),
    (NEWER, "tasks/update"): Row(large_answer, in_session),
    (NEWER, "tasks/cancel"): newer_row("tasks/cancel", TASK),
    (OLDER, "logging/setLevel"): older_row("logging/setLevel", {"level": LARGE}),
    (OLDER, "resources/subscribe"): Row(subscribed, in_session),
    (OLDER, "resources/unsubscribe"): older_row("resources/unsubscribe", {"uri": LARGE}),
    **{(era, method): row(method, {"uri": LARGE, "name": LARGE, "cursor": LARGE}, shapes=(text,))
       for era, row in ((OLDER, older_row), (NEWER, newer_row))
       for method in (*ASSET_LISTS, "resources/read", "prompts/get", "completion/complete")},
    (OLDER, "notifications/cancelled"): older_row("notifications/cancelled", {"requestId": LARGE}),
    (OLDER, "initialize"): Row(many_mcp_sessions, memory=64 * MIB),
    ("2025-03-26", "a batch"): Row(batch),
}  # fmt: skip

COMBINED: dict[str, Row] = {
    **{
        f"ten bodies at once: {shape.__name__}": Row(refused_at_once(shape), loop_s=1.0, memory=256 * MIB)
        for shape in (lists, depths, integers)
    },
    **{
        f"sixty unread replies: {path}": Row(unread(path), with_results(9), loop_s=1.0, memory=most * MIB)
        for path, most in (
            ("/v1/sessions/{sessionId}/results", 400),
            ("/v1/calls/{requestId}/content?session={sessionId}", 256),
            ("/v1/tools/requests?state=COMPLETE&session={sessionId}&limit=100", 400),
        )
    },
    "bodies without an end": Row(unfinished, loop_s=1.0, memory=160 * MIB),
    "sixty unread replies: resources/read": Row(
        unread_replies("/mcp", {"method": "resources/read", "params": {"uri": "toolyard://calls/large/content"}}),
        with_a_large_result,
        loop_s=1.0,
        memory=256 * MIB,
    ),
    "sixty unread replies: tasks/result": Row(
        unread_replies("/mcp", {"method": "tasks/result", "params": {"taskId": "again"}}),
        with_a_large_task,
        memory=256 * MIB,
    ),
    "sixty unread replies: a call made again": Row(
        unread_replies("/tools/call", LARGE_CALL), called_before, memory=256 * MIB
    ),
    "sixty unread replies: ten calls made again": Row(
        unread_replies("/tools/call", *LARGE_CALLS), each_called_before, loop_s=1.0, memory=256 * MIB
    ),
    "sixty unread replies: a call made again over MCP": Row(
        unread_replies("/mcp", {"method": "tools/call", "params": LARGE_MCP_CALL}),
        called_before_over_mcp,
        loop_s=1.0,
        memory=256 * MIB,
    ),
    "sixty large results at once": Row(large_results_at_once, loop_s=1.0, memory=160 * MIB, stored=512 * MIB),
    "sixty large results at once, with keys": Row(
        large_keyed_results_at_once, loop_s=1.0, memory=160 * MIB, stored=512 * MIB
    ),
    "sixty streams that are taken up at once": Row(
        taken_up_at_once, with_a_broken_stream, loop_s=1.0, memory=256 * MIB
    ),
    "sixty messages at once": Row(messages_at_once, loop_s=0.5),
    "4,000 tools of a worker": Row(many_tools(4000, "Many")),
    "1,000 tools of a worker": Row(many_tools(1000, "Some")),
    "many sessions with many tools": Row(many_sessions, memory=128 * MIB),
    "many uses of a session's large tools": Row(uses_of_large_tools, memory=128 * MIB),
    "whole floats for integers": Row(posted("POST", "/tools/call", NUMBERS, (floats, whole))),
    # An author's `uniqueItems` over half a million numbers, which the validator takes seconds for.
    "whole floats that must differ": Row(posted("POST", "/tools/call", DIFFERENT, (floats, integers)), loop_s=8.0),
    "all results of a session, as requests": Row(requests_with_results, with_results(9), memory=160 * MIB),
    "all results of a session, full of what is hidden": Row(
        all_results, with_results(3, hidden), loop_s=0.5, memory=200 * MIB
    ),
    "names of users and traces": Row(named, stored=MIB),
    "texts from which a secret is kept out": Row(scrubbed),
    "a worker's answer of escapes of its secret": Row(escaped_answer, memory=256 * MIB),
    "a ledger that is filled": Row(flood, stored=256 * MIB),
    **{f"a session's schema: {name}": Row(brought(schema)) for name, schema in HOSTILE.items()},
    **{
        f"a worker's schema: {name}": Row(
            offered(f"Hostile{number}.Tool", {"id": f"Hostile{number}.Tool", "input_schema": schema})
        )
        for number, (name, schema) in enumerate(HOSTILE.items())
        if name not in SAID_OTHERWISE
    },
}
"""What it takes several things for."""

ROWS = (
    {f"{method} {path}": row for (method, path), row in ROUTES.items()}
    | {f"{era} {method}": row for (era, method), row in METHODS.items()}
    | COMBINED
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("budgets"))
    yield server
    server.stop()


@pytest.fixture
def server(servers: Server) -> Server:
    if not servers.is_running:
        servers.start()
    return servers


_loud = itertools.cycle(name for name in KEYS if name != "quiet")


@pytest.mark.parametrize("name", ROWS)
def test_whatever_is_sent_stays_within_its_budget(server: Server, name: str) -> None:
    row, loud = ROWS[name], Loud(server, next(_loud))
    row.prepare(loud)
    server.forget_peak()
    memory, stored = server.memory("VmRSS"), server.stored()
    is_gone = False
    with Watch(server, row.loop_s).watching() as watch:
        try:
            row.drive(loud)
        except Gone:
            is_gone = True
    assert watch.worst_s <= row.loop_s, f"others were held up for {watch.worst_s:.1f} s of processor time"
    assert not is_gone, "the server closed the connection"
    taken, kept = server.memory("VmHWM") - memory, server.stored() - stored
    print(f"{name}: {watch.worst_s:.2f} s, {taken / MIB:.0f} MiB, {kept / MIB:.1f} MiB kept")  # noqa: T201
    assert taken <= row.memory, f"it took {taken / MIB:.0f} MiB"
    assert kept <= row.stored, f"{kept / MIB:.0f} MiB were kept"


def test_no_route_and_no_method_is_forgotten() -> None:
    for route in routes():
        if route.who != "operator":
            assert (route.method, route.path) in ROUTES, "say what the largest things are that it admits"
    dispatcher = Yard([tools.kit], exactly()).mcp.dispatcher
    for era in (OLDER, NEWER):
        for method in dispatcher._methods[era]:
            assert (era, method) in METHODS, "say what the largest things are that it admits"
    for method in (*SETTINGS, "initialize", "notifications/cancelled"):
        assert (OLDER, method) in METHODS
