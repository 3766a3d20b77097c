"""Secrets that leaky tools say in every way they can, over every wire: none of it is in a reply, in a log, in the audit
log or in the ledger's files. Across processes: a server, its child process, and a worker."""

import base64
import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import pytest

from toolyard import Client, ToolError

from ..cli.processes import Served, command, serving, toolyard
from ..conformance.serving import environment, stop
from ..runners.test_core_files import FORBIDDEN, PATTERN, limit_of

HELD = 'held/canärÿ "5b1d"?'
BROUGHT = 'brought/canary "77e0"?'
TOKEN = "token-canary-c41f"
LEAK = '''
import base64
import logging
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, quote_plus

import json

from toolyard import Context, Toolkit, ToolError, authorization, secret


def fail(text):
    raise OSError(text)


class Unclosed:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text

    def __del__(self):
        raise RuntimeError(self.text)


def say(ctx, how, canaries):
    """In every way, and then so."""
    for value in canaries:
        forms = [
            value, base64.b64encode(value.encode()).decode(), base64.urlsafe_b64encode(value.encode()).decode(),
            base64.b64encode(b"user:" + value.encode()).decode(), quote(value), json.dumps({"v": value}),
            quote_plus(value).lower(), str(value.encode()), value.encode().hex(), json.dumps(json.dumps([value])),
        ]
        text, derived = " ".join(forms), value[::-1]
        ctx.progress(1, 2, text)
        ctx.log(text, "warning", field=text)
        logging.getLogger("author").error("%s", text)
        with ThreadPoolExecutor() as pool:
            pool.submit(logging.getLogger("library").error, "%s", text)
        warnings.warn(text)
        failing = threading.Thread(target=fail, args=(text,), name=text)
        failing.start()
        failing.join()
        Unclosed(text)
        try:
            raise KeyError(text)
        except KeyError:
            logging.getLogger("author").exception("it failed")
    if how == "fail":
        raise ToolError(text, developer_message=text, additional_prompt_content=text, can_retry=False)
    if how == "crash":
        raise RuntimeError(text) from ValueError(text)
    if how == "broken":
        return {"x": float("nan"), text: text}
    return {"forms": forms, text: [text]}
'''
TOOLS = (
    LEAK
    + '''
kit = Toolkit("Leaky")


@kit.tool(requires=secret("KEY"))
def thread(how: str, ctx: Context) -> dict:
    """In a thread."""
    return say(ctx, how, [ctx.secret("KEY")])


@kit.tool(requires=secret("KEY"))
async def inline(how: str, ctx: Context) -> dict:
    """On the loop."""
    return say(ctx, how, [ctx.secret("KEY")])


@kit.tool(requires=secret("KEY"), runs="process")
def process(how: str, ctx: Context) -> dict:
    """In a child process."""
    return say(ctx, how, [ctx.secret("KEY")])


@kit.tool(requires=[secret("KEY"), authorization("google")])
async def both(how: str, ctx: Context) -> dict:
    """With a token."""
    return say(ctx, how, [ctx.secret("KEY"), ctx.token("google")])


@kit.tool(requires=secret("KEY"))
async def ask(how: str, ctx: Context) -> str:
    """Asks."""
    return str(await ctx.ask(ctx.secret("KEY"), {"type": "object", "properties": {}}, name="who"))
'''
)
WORKERS = (
    LEAK
    + '''
kit = Toolkit("Far")


@kit.tool(requires=secret("KEY"))
def work(how: str, ctx: Context) -> dict:
    """At a worker."""
    return say(ctx, how, [ctx.secret("KEY")])
'''
)
HOW = ("return", "fail", "crash", "broken")
META = "io.modelcontextprotocol/"
LOCAL_TOOLS = ("Leaky.Thread", "Leaky.Inline", "Leaky.Process")


def forms(value: str) -> list[bytes]:
    """What it must not be found as; the last one is a value of the tool's own, which no traceback shows."""
    raw = value.encode()
    inside = base64.b64encode(b"user:" + raw)[8:-4]
    texts = (
        value, quote(value), quote_plus(value).lower(), json.dumps(value)[1:-1], json.dumps(json.dumps(value))[3:-3],
        str(raw)[2:-1], raw.hex(), value[::-1],
    )  # fmt: skip
    return [*(text.encode() for text in texts), base64.b64encode(raw), base64.urlsafe_b64encode(raw), inside]


LOOKED_FOR = [form for value in (HELD, BROUGHT, TOKEN) for form in forms(value)]


def canaries_in(said: bytes) -> list[bytes]:
    return [form for form in LOOKED_FOR if form in said]


class Stage:
    """A server with its folder, and everything that it answered."""

    def __init__(self, folder: Path, served: Served) -> None:
        self.folder, self.served = folder, served
        self.replies: list[bytes] = []

    def send(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[bytes, dict[str, str]]:
        where = urlsplit(self.served.address)
        link = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **(headers or {})}
        sent |= {"traceparent": f"00-{TOKEN}-01", "tracestate": f"v={TOKEN}", "baggage": f"v={TOKEN}"}
        try:
            link.request("POST" if body is not None else "GET", path, None if body is None else json.dumps(body), sent)
            reply = link.getresponse()
            try:
                self.replies.append(reply.read())
            except http.client.IncompleteRead as broken:  # a stream that ends with its connection
                self.replies.append(broken.partial)
            return self.replies[-1], dict(reply.getheaders())
        finally:
            link.close()

    def call(self, wire: Any, tool: str, how: str, **more: Any) -> None:
        with Client(self.served.address, wire=wire, retries=0) as client:
            try:
                said = client.call(tool, {"how": how}, **more)
            except ToolError as error:
                said = error.members()
        self.replies.append(json.dumps(said, ensure_ascii=False).encode())

    def newer(self, tool: str, how: str) -> bytes:
        about = {
            f"{META}protocolVersion": "2026-07-28", f"{META}clientInfo": {}, "progressToken": 1,
            f"{META}clientCapabilities": {"elicitation": {"form": {}}}, f"{META}logLevel": "debug",
        }  # fmt: skip
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
        params = {"name": tool, "arguments": {"how": how}, "_meta": about}
        return self.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)[0]

    def older(self, tool: str, how: str) -> bytes:
        params = {"name": tool, "arguments": {"how": how}, "_meta": {"progressToken": 1}}
        return self.rpc("tools/call", params, self.opened())

    def task(self, tool: str, how: str) -> bytes:
        session = self.opened()
        begun = self.rpc("tools/call", {"name": tool, "arguments": {"how": how}, "task": {"ttl": 60000}}, session)
        task = json.loads(begun)["result"]["task"]["taskId"]
        return self.rpc("tasks/result", {"taskId": task}, session)

    def rpc(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> bytes:
        return self.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers)[0]

    def opened(self) -> dict[str, str]:
        """A session of the older era, as the headers that name it."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        _, headers = self.send("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        return {"mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}

    def session(self, *names: str) -> bytes:
        opened, _ = self.send("/v1/sessions", {})
        session = json.loads(opened)["sessionId"]
        uses = [
            {"type": "tool_use", "id": f"{name}-{how}", "name": name, "input": {"how": how}}
            for name in names
            for how in HOW
        ]
        self.send(f"/v1/sessions/{session}/messages", {"role": "assistant", "content": uses})
        results, _ = self.send(f"/v1/sessions/{session}/results?wait=20", None)
        self.send(f"/v1/sessions/{session}/requests", None)
        return results

    def traces(self) -> dict[str, list[bytes]]:
        """Where a canary is."""
        audit = toolyard("audit", "export", folder=self.folder).out
        calls = toolyard("calls", "--json", folder=self.folder).out
        listed = toolyard("secrets", "list", "--json", folder=self.folder).out
        said = {f"reply {number}": reply for number, reply in enumerate(self.replies)}
        said |= {"audit": audit.encode(), "calls": calls.encode(), "secrets": listed.encode()}
        said |= {path.name: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        return {name: found for name, text in said.items() if (found := canaries_in(text))}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """All that the server says goes into a file, too, so that it is searched with the others."""
    (tmp_path / "leaky.py").write_text(TOOLS, encoding="utf-8")
    (tmp_path / "far.py").write_text(WORKERS, encoding="utf-8")
    set_it = ("secrets", "set", "KEY", "--tool", "Leaky.*", "--tool", "Far.*")
    assert toolyard(*set_it, folder=tmp_path, input=HELD).code == 0
    mean = {"TOOLYARD_SHOW_EXCEPTIONS": "true", "TOOLYARD_LOG_LEVEL": "debug"}
    mean["TOOLYARD_WORKERS"] = '[{"trusted": true}]'
    with serving("leaky.py", folder=tmp_path, variables=mean) as served:
        made = Stage(tmp_path, served)
        yield made
        served.end()
        log = "\n".join(heard(served))
        assert not canaries_in(log.encode())


def heard(served: Served) -> list[str]:
    """All that it ever said."""
    served._thread.join(2)
    lines = list(served.said)
    while not served._lines.empty():
        lines.append(served._lines.get())
    return lines


@contextmanager
def working(stage: Stage) -> Iterator[Path]:
    """A worker, and the file of what it says."""
    log = stage.folder / "worker.log"
    arguments = ("worker", "far.py", "--server", stage.served.address, "--log-level", "debug")
    with log.open("wb") as file:
        process = subprocess.Popen(
            command(*arguments), cwd=stage.folder, env=environment("open"), stdout=subprocess.PIPE, stderr=file
        )
        assert process.stdout is not None
        while b"Ctrl-C" not in process.stdout.readline():
            pass
        try:
            if PATTERN.exists():
                assert limit_of(process.pid) == FORBIDDEN, "no core files"
            yield log
        finally:
            stop(process)
            process.stdout.close()


@pytest.mark.parametrize("wire", ["oxp", "otc", "otc_draft"])
def test_over_the_family_of_oxp(stage: Stage, wire: str) -> None:
    for how in HOW:
        for tool in LOCAL_TOOLS:
            stage.call(wire, tool, how)
        stage.call(wire, "Leaky.Thread", how, call_id=f"k-{how}", secrets={"KEY": BROUGHT, "MORE": HELD})
        stage.call(wire, "Leaky.Both", how, secrets={"KEY": BROUGHT}, tokens={"google": TOKEN})
    assert b"[secret KEY]" in b"".join(stage.replies)
    assert b"[secret google]" in b"".join(stage.replies)
    assert stage.traces() == {}


def test_over_mcp(stage: Stage) -> None:
    for how in HOW:
        for tool in ("Leaky_Thread", "Leaky_Inline", "Leaky_Process"):
            for say in (stage.newer, stage.older):
                assert b"[secret KEY]" in say(tool, how)
            said = stage.task(tool, how)
            assert (b"[secret KEY]" in said) == (how in ("return", "fail")), "others are not told why"
    assert b"[secret KEY]" in stage.newer("Leaky_Ask", "return"), "what it asks"
    assert stage.traces() == {}


def test_in_sessions_and_at_workers(stage: Stage) -> None:
    with working(stage) as log:
        assert b"[secret KEY]" in stage.session("Leaky_Thread", "Leaky_Process", "Far_Work")
        for how in HOW:
            stage.call("oxp", "Far.Work", how, secrets={"KEY": BROUGHT})
        assert b"[secret KEY]" in log.read_bytes()
    assert stage.traces() == {}


def test_what_a_worker_of_another_make_says_is_scrubbed_by_the_server(stage: Stage) -> None:
    tool = {
        "id": "Far.Raw", "version": "1.0.0", "description": "Raw.", "input_schema": {"type": "object"},
        "requirements": {"secrets": [{"id": "KEY"}]},
    }  # fmt: skip
    as_raw = {"toolyard-worker": "raw"}
    stage.served.request("PUT", "/v1/workers/raw", {"tools": [tool]})
    for number, way in enumerate(("answer", "fail")):
        session = json.loads(stage.send("/v1/sessions", {})[0])["sessionId"]
        use = {"type": "tool_use", "id": f"t-{number}", "name": "Far_Raw", "input": {}}
        stage.send(f"/v1/sessions/{session}/messages", {"role": "assistant", "content": [use]})
        claim = stage.served.request("POST", "/v1/tools/claim", {"limit": 1, "wait": 20}, as_raw)["claims"][0]
        (given,) = [each["value"] for each in claim["context"]["secrets"]]
        assert given == HELD
        mine = {**as_raw, "toolyard-attempt": str(claim["attempt"])}
        beat = {"sessionId": session, "requestId": claim["requestId"], "attempt": claim["attempt"]}
        beats = {"heartbeats": [{**beat, "progress": {"done": 1, "message": HELD}}]}
        assert stage.served.request("POST", "/v1/tools/heartbeats", beats, as_raw)["results"][0]["status"] == 200
        at = f"{session}/{claim['requestId']}"
        if way == "answer":
            stage.send(f"/v1/tools/response/{at}", {"response": {"state": "COMPLETE", "value": [HELD]}}, mine)
        else:
            stage.send(f"/v1/tools/request/{at}/heartbeat", {"state": "ERROR", "error": {"message": HELD}}, mine)
        results, _ = stage.send(f"/v1/sessions/{session}/results?wait=20", None)
        assert b"[secret KEY]" in results
    assert stage.traces() == {}
