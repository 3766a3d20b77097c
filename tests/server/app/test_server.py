"""What the server has besides the protocols: lists from bytes, probes, metrics, traces, pages, mounting."""

import asyncio
import logging
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from toolyard import App, Context, Toolkit
from toolyard.server.app.compose import Yard
from toolyard.server.app.lag import LATE_S
from toolyard.server.settings.table import exactly
from toolyard.testing import call, client

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
async def trace(ctx: Context) -> str | None:
    """Tells the trace it is in."""
    return ctx.trace_id


@kit.tool(wire_name="fail")
async def fail() -> None:
    """Fails."""
    raise RuntimeError


def request(app: Any, method: str, path: str, **options: Any) -> httpx2.Response:
    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://yard.test") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


@pytest.fixture
def app() -> Any:
    return App(kit).asgi()


def body(tool_id: str, **more: Any) -> dict[str, Any]:
    return {"json": {"tool_id": tool_id, **more}}


def test_a_list_is_answered_with_304_until_it_changes() -> None:
    yard = Yard([kit], exactly())
    first = request(yard.asgi, "GET", "/tools")
    again = request(yard.asgi, "GET", "/tools", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    yard.catalogue.remove(yard.catalogue.newest()[0])
    changed = request(yard.asgi, "GET", "/tools", headers={"If-None-Match": first.headers["etag"]})
    assert changed.status_code == 200
    assert len(changed.json()["items"]) == len(first.json()["items"]) - 1


def test_each_protocol_has_a_list_of_its_own() -> None:
    yard = Yard([kit], exactly())
    tags = {
        request(yard.asgi, "GET", path).headers["etag"] for path in ("/oxp/tools", "/otc/tools", "/otc/draft/tools")
    }
    assert len(tags) == 3


def test_tools_come_in_a_stable_order() -> None:
    unordered = Toolkit("Unordered")
    for name in ("C", "A", "B"):
        unordered.tool(name=name)(trace)
    names = [item["id"] for item in request(Yard([unordered], exactly()).asgi, "GET", "/tools").json()["items"]]
    assert names == sorted(names)


def test_a_trace_goes_in_and_out(app: Any) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    reply = request(app, "POST", "/tools/call", **body("Kit.Trace"), headers={"traceparent": traceparent})
    assert reply.json()["value"] == "0af7651916cd43dd8448eb211c80319c"
    assert re.fullmatch("00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01", reply.headers["traceparent"])
    assert reply.headers["traceparent"] != traceparent


def test_the_bodys_trace_id_wins(app: Any) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = body("Kit.Trace", trace_id="mine")
    assert request(app, "POST", "/tools/call", **sent, headers={"traceparent": traceparent}).json()["value"] == "mine"


@pytest.mark.parametrize("wrong", ["", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x" * 55])
def test_a_broken_traceparent_is_ignored(app: Any, wrong: str) -> None:
    reply = request(app, "POST", "/tools/call", **body("Kit.Trace"), headers={"traceparent": wrong})
    assert reply.json()["value"] is None
    assert "traceparent" not in reply.headers


def test_metrics_count_calls_by_tool_and_wire(app: Any) -> None:
    async def several() -> str:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://yard.test") as client:
            for _ in range(3):
                await client.post("/tools/call", json={"tool_id": "Kit.Trace"})
            await client.post("/tools/call", json={"tool_id": "Kit.Fail"})
            await client.post("/otc/tools/call", json={"request": {"tool_id": "Kit.Trace", "input": {"x": 1}}})
            for number in range(5):
                await client.post("/tools/call", json={"tool_id": f"No.Such{number}"})
            return (await client.get("/metrics")).text

    text = asyncio.run(several())
    assert 'toolyard_calls_total{outcome="success",tool="Kit.Trace",wire="oxp"} 3.0' in text
    assert 'toolyard_call_errors_total{error="tool_failed",tool="Kit.Fail",wire="oxp"} 1.0' in text
    assert 'toolyard_call_errors_total{error="InvalidInput",tool="Kit.Trace",wire="otc"} 1.0' in text
    assert 'toolyard_call_errors_total{error="ToolNotFound",tool="",wire="oxp"} 5.0' in text
    assert 'toolyard_call_duration_seconds_count{tool="Kit.Trace",wire="oxp"} 3.0' in text


def test_metrics_need_credentials_where_calls_do() -> None:
    yard = Yard([kit], exactly(api_keys=["ty_0123456789abcdef"]))
    assert request(yard.asgi, "GET", "/metrics").status_code == 401
    assert request(yard.asgi, "GET", "/health").status_code == 200
    front = request(yard.asgi, "GET", "/").text
    assert "Kit.Trace" not in front


@pytest.mark.parametrize("path", ["/", "/docs", "/authorize/abc?provider=<script>"])
def test_pages_hold_no_script_and_escape_what_they_are_given(app: Any, path: str) -> None:
    page = request(app, "GET", path)
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_challenge_leads_to_a_page_that_says_that_nothing_is_set_up(app: Any) -> None:
    assert "No provider is set up" in request(app, "GET", "/authorize/abc?provider=google").text
    assert request(app, "GET", "/authorize/abc/status").json() == {"status": "failed"}


def test_it_mounts_into_fastapi() -> None:
    outer = FastAPI()
    outer.mount("/agents", App(kit).asgi())
    reply = request(outer, "POST", "/agents/tools/call", **body("Kit.Trace"))
    assert reply.json()["success"] is True
    assert request(outer, "GET", "/agents/nothing").json() == {"message": "Nothing is served at /nothing"}
    assert "http://yard.test/agents/otc" in request(outer, "GET", "/agents/").text


def test_it_mounts_into_starlette_with_its_lifespan() -> None:
    life: list[str] = []

    async def lifespan() -> Any:
        life.append("made")
        yield "pool"
        life.append("closed")

    tools = App(kit, lifespan=lifespan).asgi()
    outer = Starlette(routes=[Mount("/agents", tools)], lifespan=tools.lifespan)

    async def live() -> None:
        async with outer.router.lifespan_context(outer):
            assert life == ["made"]
        assert life == ["made", "closed"]

    asyncio.run(live())


@pytest.mark.parametrize("public_url", [None, "http://127.0.0.1:8000/agents"])
def test_below_a_mount_every_link_and_form_of_its_pages_is_below_it_too(public_url: str | None, tmp_path: Path) -> None:
    asking = Toolkit("Asking")

    @asking.tool(approval="always")
    async def pay() -> str:
        """Pays."""
        return "paid"

    more = {} if public_url is None else {"public_url": public_url}
    tools = App(asking).asgi(store=f"sqlite:{tmp_path}/yard.db", **more)
    outer = FastAPI(lifespan=tools.lifespan)
    outer.mount("/agents", tools)
    with TestClient(outer, base_url="http://127.0.0.1:8000") as browser:
        missing = browser.post("/agents/tools/call", json={"tool_id": "Asking.Pay"}).json()["missing_requirements"]
        approval = urlsplit(missing["authorization"][0]["url"]).path
        pages = {path: browser.get(path) for path in ("/agents/", "/agents/docs", approval, "/agents/console/login")}
        for path, page in pages.items():
            for link in re.findall(r"(?:href|src|action)=['\"]([^'\"#]+)", page.text):
                assert urlsplit(urljoin(f"http://127.0.0.1:8000{path}", link)).path.startswith("/agents/"), (path, link)
        assert "<form" in pages[approval].text
        form = re.search(r"action='([^']+)'.*name='form' value='([^']+)'", pages[approval].text)
        assert form is not None
        fields = {"form": form[2], "code": "AAAA-AAAA", "say": "yes"}
        sent = browser.post(form[1], data=fields, headers={"origin": "http://127.0.0.1:8000"})
        assert (sent.status_code, "This is not the code" in sent.text) == (403, True), sent.text
        assert browser.get("/agents/openapi.json").json()["servers"] == [{"url": "http://127.0.0.1:8000/agents"}]


def test_a_mounted_app_can_be_started_again() -> None:
    tools = App(kit).asgi()
    outer = FastAPI(lifespan=tools.lifespan)
    outer.mount("/agents", tools)
    for _ in range(2):
        with TestClient(outer) as browser:
            assert browser.post("/agents/tools/call", json={"tool_id": "Kit.Trace"}).json()["success"] is True


def test_sync_tools_work_on_one_loop_after_another() -> None:
    threaded = Toolkit("Threaded")

    @threaded.tool
    def one() -> int:
        """Runs in a thread."""
        return 1

    outer = FastAPI()
    outer.mount("/agents", App(threaded).asgi())
    browser = TestClient(outer)  # each of its requests has a loop of its own
    replies = [browser.post("/agents/tools/call", json={"tool_id": "Threaded.One"}).json() for _ in range(3)]
    assert [reply["value"] for reply in replies] == [1, 1, 1]


def test_two_servers_of_one_app_have_their_own_resources() -> None:
    shared = Toolkit("Shared")
    made = iter(("first", "second"))

    @shared.tool
    async def which(ctx: Context) -> str:
        """Tells what the lifespan made."""
        return str(ctx.resources)

    async def lifespan() -> Any:
        yield next(made)

    app = App(shared, lifespan=lifespan)
    with client(app) as outer:
        assert call(app, "Shared.Which") == "second"
        assert outer.call("Shared.Which") == "first"


def test_a_tool_that_holds_the_loop_is_named() -> None:
    blocking = Toolkit("Blocking")
    warned, said = threading.Event(), list[str]()

    @blocking.tool
    async def hog() -> bool:
        """Holds the event loop until somebody complains."""
        return warned.wait(timeout=LATE_S * 40)

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            warned.set()

    ear = Ear()
    logging.getLogger("toolyard.lag").addHandler(ear)
    try:
        assert call(blocking, "Blocking.Hog") is True
    finally:
        logging.getLogger("toolyard.lag").removeHandler(ear)
    assert said[0].startswith("Blocking.Hog has held the event loop")
