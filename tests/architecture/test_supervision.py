"""What lives longer than a request is started by the supervisor: nothing else makes a task or a thread, but what is
listed here with its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolyard

SOURCE = Path(toolyard.__file__).parent
STARTERS = {"create_task", "ensure_future", "Thread", "Timer", "start_new_thread", "run_coroutine_threadsafe"}

REQUEST = "ends with its request, or with the call that it is about"
ITEM = "writes or fetches one thing; whoever started it hears how that ended"
PROCESS = "is another process than a server, or a test's"
WATCH = "must work when everything else has failed, and so depends on nothing"
CONNECTION = "is the connection itself: its end is the end of the server"
ATTENDED = "ends with the task that waits for it, which is the supervisor's"

ALLOWED = {
    "supervision.py SupervisedTask._started": "is the supervisor",
    "supervision.py SupervisedThread.__init__": "is the supervisor",
    "server/app/shutdown.py LastResort.__init__": WATCH,
    "server/admin/socket_http.py SocketHttp.__init__": ITEM,
    "server/group/acceptor.py Acceptor._accept": ITEM,
    "server/http/streams.py Streams.open": REQUEST,
    "server/http/reply_line.py AsgiLine.answer": REQUEST,
    "server/http/reply_line.py AsgiLine._listen": REQUEST,
    "server/http/uvicorn_protocol.py PoliteProtocol._start_asgi_task": REQUEST,
    "server/http/fast_path.py CycleLine.answer": REQUEST,
    "server/app/run_stdio.py _serve": CONNECTION,
    "server/mcp/transports/pipes.py read_lines": CONNECTION,
    "server/mcp/transports/pipes.py OutputPipe._write_later": CONNECTION,
    "server/mcp/transports/stdio.py StdioServer._take": REQUEST,
    "server/mcp/methods/subscriptions.py Subscriptions._on_change.changed": ITEM,
    "server/mcp/methods/upstream_offers.py UpstreamOffers._asked": REQUEST,
    "server/mcp/transports/http_stream.py HttpOutlet._beside": ITEM,
    "server/mcp/transports/cancellation.py RunningRequests.kept": REQUEST,
    "runners/attempt.py _leave": "is a tool that does not stop: nobody waits for it",
    "runners/child.py serve": PROCESS,
    "authoring/dependencies.py _on_loop": REQUEST,
    "engine/concurrency.py Slots._give_all_back": ITEM,
    "engine/restarts.py Restarts._start": REQUEST,
    "engine/durable.py DurableCalls._enter": REQUEST,
    "engine/durable.py DurableCalls._hearing": REQUEST,
    "store/write_behind.py WriteBehind.flush": ITEM,
    "engine/node.py Node.beside": ITEM,
    "engine/promotion.py PromotedCall._start_recording": ITEM,
    "worker/worker.py Worker._claim": PROCESS,
    "worker/worker.py Worker._wait_for_registration": PROCESS,
    "worker/runs.py Runs.start": PROCESS,
    "worker/claims.py _unless": PROCESS,
    "testing.py client": PROCESS,
    "testing.py _ThreadedTransport.send": PROCESS,
    "demo/provider_http.py providing": PROCESS,
    "upstream/pending_request.py PendingRequest.ask": REQUEST,
    "upstream/call.py UpstreamCall._cancel_soon": ITEM,
    "upstream/call.py UpstreamCall._answers": REQUEST,
    "upstream/http.py OlderHttp.request": ITEM,
    "upstream/http.py OlderHttp._answered": REQUEST,
    "upstream/http.py ModernHttp.changes": ATTENDED,
    "upstream/upstreams.py FollowedUpstream._attend": ATTENDED,
    "trust/credentials/jwks_cache.py PublishedKeys.refresh": ITEM,
    "trust/requirements/accounts.py Accounts._in_any_case": ITEM,
}
"""By file and function."""


def started_in(path: Path) -> Iterator[str]:
    """The functions of a file that make a task or a thread."""

    def look(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        if isinstance(node, ast.Call) and _name(node.func) in STARTERS:
            yield f"{path.relative_to(SOURCE)} {'.'.join(names)}"
        for child in ast.iter_child_nodes(node):
            yield from look(child, names)

    yield from look(ast.parse(path.read_text(encoding="utf-8")), ())


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_only_the_supervisor_starts_what_lives_long() -> None:
    found = {each for path in SOURCE.rglob("*.py") for each in started_in(path)}
    assert found - set(ALLOWED) == set(), "start it with supervision.Supervisor, or say here why not"
    assert set(ALLOWED) - found == set(), "these are gone"


@pytest.mark.parametrize("line", ["asyncio.create_task(f())", "threading.Thread(target=f).start()", "Thread(target=f)"])
def test_the_look_sees_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    (tmp_path / "new.py").write_text(f"class A:\n    def f(self):\n        {line}\n")
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    assert list(started_in(tmp_path / "new.py")) == ["new.py A.f"]
