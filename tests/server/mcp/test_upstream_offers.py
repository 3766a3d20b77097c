"""Prompts and resources of another toolyard, beside an author's own: they pass what the author's pass."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import Served, serving, starting, toolyard
from tests.upstream.waiting import until
from toolyard.lazy import load

from .schemas import MODERN, REVISIONS
from .talking import Client, connect

SECRET = "correct-horse-battery-staple"
INNER = '''
import asyncio

from mcp.types import Completion
from toolyard import App, Embedded, ResourceLink, Toolkit

kit = Toolkit("Kit", version="1.0.0")
app = App(kit)


@kit.tool
async def link() -> ResourceLink:
    """Links to what nobody lists."""
    return ResourceLink("notes://7", name="seven")


@kit.tool
async def embed() -> Embedded:
    """Gives what nobody can read later."""
    return Embedded("gone://1", text="as it was")


@kit.tool
async def add() -> str:
    """Adds a prompt and a resource."""
    @app.mcp.prompt(name="added")
    def added() -> str:
        return "Added."

    @app.mcp.resource("added://1")
    def one() -> str:
        return "One."

    return "added"


@kit.tool
async def long() -> str:
    """A text that is too long for a model."""
    return "long " * 100_000


@app.mcp.prompt()
def pack(city: str = "Rome") -> str:
    return f"Pack for {city}."


@app.mcp.prompt()
def pay() -> str:
    return "Pay."


@app.mcp.resource("trips://{city}/weather")
def weather(city: str) -> str:
    return f"Sun in {city}."


@app.mcp.resource("notes://{number}", mime_type="text/plain")
def notes(number: str) -> str:
    return f"Note {number}."


@app.mcp.resource("safe://gold")
def gold() -> str:
    return "Gold."


@app.mcp.resource("open://air")
def air() -> str:
    return "Air."


@app.mcp.resource("shared://place")
def place() -> str:
    return "The upstream's."


@app.mcp.completion()
async def complete(ref, argument, context):
    return Completion(values=["Rome", "Riga"])
'''
AUTHORS = '''
from toolyard import App, Embedded, Toolkit

own = Toolkit("Own", version="1.0.0")
app = App(own)


@own.tool
async def give(uri: str) -> Embedded:
    """Gives a resource."""
    return Embedded(uri, text="given")


@app.mcp.prompt()
def ours() -> str:
    return "Ours."


@app.mcp.prompt()
def pay() -> str:
    return "The author's."


@app.mcp.resource("shared://place")
def place() -> str:
    return "The author's."


@app.mcp.resource("ours://1")
def one() -> str:
    return "One."
'''
PLAIN = '''
from toolyard import Embedded, Toolkit

own = Toolkit("Own", version="1.0.0")


@own.tool
async def give(uri: str) -> Embedded:
    """Gives a resource."""
    return Embedded(uri, text="given")
'''
Connect = Callable[..., Client]


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the other yard."""
    with yard(tmp_path_factory.mktemp("inner")) as served:
        yield f"{served.address}/mcp"


@contextmanager
def yard(folder: Path, **settings: str) -> Iterator[Served]:
    folder = folder / "inner"
    folder.mkdir()
    (folder / "inner.py").write_text(INNER)
    with serving("inner.py:app", folder=folder, variables=settings) as served:
        yield served


@contextmanager
def outer(folder: Path, *upstreams: dict[str, Any], source: str = PLAIN, **settings: Any) -> Iterator[Served]:
    """A server in front of it, with an author's tools."""
    (folder / "outer.py").write_text(source)
    given = {f"TOOLYARD_{name.upper()}": text_in(value) for name, value in settings.items()}
    given |= {"TOOLYARD_UPSTREAMS": json.dumps(upstreams)}
    with serving("outer.py", folder=folder, variables=given) as served:
        yield served


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def token(subject: str, *scopes: str) -> str:
    claims = {"sub": subject, "scope": " ".join(scopes), "exp": time.time() + 600}
    made: str = load("signed_token")(claims, SECRET)
    return made


@pytest.fixture
def client() -> Iterator[Connect]:
    made: list[Client] = []

    def connected(served: Served, revision: str = MODERN, key: str | None = None) -> Client:
        made.append(connect(f"{served.address}/mcp", revision, key))
        return made[-1]

    yield connected
    for each in made:
        each.close()


def listed(client: Client) -> tuple[list[str], list[str], list[str]]:
    def all_of(method: str, member: str, key: str) -> list[str]:
        found, params = list[str](), dict[str, Any]()
        while True:
            response = client.request(method, params).response()
            if "error" in response:
                return found
            found += [each[key] for each in response["result"][member]]
            if "nextCursor" not in response["result"]:
                return found
            params = {"cursor": response["result"]["nextCursor"]}

    return (
        all_of("prompts/list", "prompts", "name"),
        all_of("resources/list", "resources", "uri"),
        all_of("resources/templates/list", "resourceTemplates", "uriTemplate"),
    )


def until_there(client: Client, prompt: str = "Hub_pack", template: str = "notes://{number}") -> None:
    until(lambda: prompt in listed(client)[0] and template in listed(client)[2])


def read(client: Client, uri: str) -> Any:
    return client.post(client.made("resources/read", {"uri": uri}), **name_header(client, uri))


def get(client: Client, name: str, **arguments: str) -> Any:
    return client.post(client.made("prompts/get", {"name": name, "arguments": arguments}), **name_header(client, name))


def complete(client: Client, **ref: str) -> Any:
    return client.request("completion/complete", {"ref": ref, "argument": {"name": "city", "value": "R"}})


def name_header(client: Client, name: str) -> dict[str, str]:
    return {"mcp_name": name} if client.revision == MODERN else {}


def text(exchange: Any) -> str:
    result = exchange.result()
    found: str = (result.get("contents") or [result["messages"][0]["content"]])[0]["text"]
    return found


# -- another yard ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_prompts_and_resources_of_another_yard_are_served(
    tmp_path: Path, inner: str, client: Connect, kind: str
) -> None:
    (tmp_path / "inner.py").write_text(INNER)
    program = [sys.executable, "-m", "toolyard", "stdio", str(tmp_path / "inner.py:app")]
    hub = {"name": "Hub", **({"mcp": inner} if kind == "http" else {"command": program, "cwd": str(tmp_path)})}
    with outer(tmp_path, hub) as served:
        until_there(client(served))
        for revision in REVISIONS:
            ada = client(served, revision)
            prompts, resources, templates = listed(ada)
            assert {"Hub_pack", "Hub_pay"} <= set(prompts)
            assert {"open://air", "safe://gold", "shared://place"} <= set(resources)
            assert templates == ["notes://{number}", "trips://{city}/weather"]
            assert text(get(ada, "Hub_pack", city="Oslo")) == "Pack for Oslo."
            assert text(read(ada, "safe://gold")) == "Gold."
            assert text(read(ada, "trips://Oslo/weather")) == "Sun in Oslo."
            ref = {"type": "ref/prompt", "name": "Hub_pack"}
            assert complete(ada, **ref).result()["completion"]["values"] == ["Rome", "Riga"]
            assert get(ada, "pack").error()["code"] == -32602


def test_what_was_too_long_is_read_at_the_yard_that_cut_it(tmp_path: Path, inner: str, client: Connect) -> None:
    """The other yard gives out an address of its own, `toolyard://calls/…`, which means nothing here."""
    with outer(tmp_path, {"name": "Hub", "mcp": inner}, max_output_bytes="1000000") as served:
        ada = client(served)
        until_there(ada)
        content = ada.call("Hub_Kit_Long").result()["content"]
        (uri,) = [block["uri"] for block in content if block["type"] == "resource_link"]
        assert text(read(ada, uri)) == "long " * 100_000
        assert "error" in read(ada, "toolyard://calls/another/content").response()


def test_what_comes_to_another_yard_is_told(tmp_path: Path, client: Connect) -> None:
    with yard(tmp_path) as other, outer(tmp_path, {"name": "Hub", "mcp": f"{other.address}/mcp"}) as served:
        ada = client(served, "2025-11-25")
        until_there(ada)
        stream = ada.get()  # type: ignore[attr-defined]
        assert stream.status == 200
        ada.call("Hub_Kit_Add").result()
        heard = {stream.next()["method"] for _ in range(2)}
        assert heard == {"notifications/prompts/list_changed", "notifications/resources/list_changed"}
        assert text(get(ada, "Hub_added")) == "Added."
        assert text(read(ada, "added://1")) == "One."


# -- beside an author's ----------------------------------------------------------------------------


def test_the_authors_come_first_and_are_the_authors(tmp_path: Path, inner: str, client: Connect) -> None:
    hub = {"name": "Hub", "mcp": inner, "names": "as they are"}
    with outer(tmp_path, hub, source=AUTHORS) as served:
        ada = client(served)
        until_there(ada, "pack")
        prompts, resources, _ = listed(ada)
        assert prompts == ["ours", "pay", "pack"]
        assert resources[:2] == ["shared://place", "ours://1"]
        assert resources.count("shared://place") == 1
        assert text(get(ada, "pay")) == "The author's."
        assert text(get(ada, "pack")) == "Pack for Rome."
        assert text(read(ada, "shared://place")) == "The author's."
        assert text(read(ada, "safe://gold")) == "Gold."
        assert complete(ada, type="ref/prompt", name="pack").result()["completion"]["values"] == ["Rome", "Riga"]


def test_pages_have_everything_once(tmp_path: Path, inner: str, client: Connect) -> None:
    hub = {"name": "Hub", "mcp": inner}
    with outer(tmp_path, hub, source=AUTHORS, mcp_page_size="1") as served:
        ada = client(served)
        until_there(ada)
        prompts, resources, templates = listed(ada)
        assert prompts == ["ours", "pay", "Hub_pack", "Hub_pay"]
        assert resources == ["shared://place", "ours://1", "open://air", "safe://gold"]
        assert templates == ["notes://{number}", "trips://{city}/weather"]
        first = ada.result("resources/templates/list")
        assert [each["uriTemplate"] for each in first["resourceTemplates"]] == ["notes://{number}"]
        for wrong in ("x", "dG9vbA", "!"):
            assert ada.request("resources/list", {"cursor": wrong}).error()["code"] == -32602


def test_what_our_tools_gave_out_is_not_an_upstreams(tmp_path: Path, inner: str, client: Connect) -> None:
    with outer(tmp_path, {"name": "Hub", "mcp": inner}) as served:
        ada = client(served)
        until_there(ada)
        for uri in ("safe://gold", "trips://Riga/weather"):
            assert text(read(ada, uri)) != "given"
            ada.call("Own_Give", {"uri": uri}).result()
            assert text(read(ada, uri)) == "given"


def test_what_an_upstreams_tool_gave_out_is_read_there_and_else_as_it_was(
    tmp_path: Path, inner: str, client: Connect
) -> None:
    with outer(tmp_path, {"name": "Hub", "mcp": inner}) as served:
        ada = client(served)
        until_there(ada)
        ada.call("Hub_Kit_Link").result()
        assert text(read(ada, "notes://7")) == "Note 7."
        assert "error" in read(ada, "gone://1").response()
        ada.call("Hub_Kit_Embed").result()
        assert text(read(ada, "gone://1")) == "as it was"


def test_the_sdk_is_not_needed(tmp_path: Path, inner: str, client: Connect) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('it is not installed here')")
    (tmp_path / "outer.py").write_text(PLAIN)
    variables = {"TOOLYARD_UPSTREAMS": json.dumps([{"name": "Hub", "mcp": inner}])}
    with starting("outer.py", folder=tmp_path, variables=variables, flags=["-B"]) as served:
        served.hear("Stop with Ctrl-C.")
        ada = client(served)
        until_there(ada)
        assert text(get(ada, "Hub_pack")) == "Pack for Rome."
        assert text(read(ada, "safe://gold")) == "Gold."


# -- rules, limits, the audit log ------------------------------------------------------------------

ACCESS: list[dict[str, Any]] = [
    {"name": "chief", "who": {"subject": "chief"}},
    {"name": "no gold", "tools": ["resources/safe://*", "resources/trips://Oslo/*"], "allow": False},
    {"name": "packing", "tools": ["prompts/Hub_pack", "resources/trips://*", "Hub.*"]},
    {"name": "air", "tools": ["resources/open://*"], "scopes": ["air"]},
]


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory, inner: str) -> Iterator[tuple[Served, Path]]:
    folder = tmp_path_factory.mktemp("ruled")
    with outer(folder, {"name": "Hub", "mcp": inner}, access=ACCESS, jwt_secret=SECRET, audit="strict") as served:
        chief = connect(f"{served.address}/mcp", MODERN, token("chief"))
        until_there(chief)
        chief.close()
        yield served, folder


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_list_has_what_its_caller_may_have(ruled: tuple[Served, Path], client: Connect, revision: str) -> None:
    served, _ = ruled
    assert listed(client(served, revision, token("ada"))) == (["Hub_pack"], [], ["trips://{city}/weather"])
    assert listed(client(served, revision, token("ada", "air")))[1] == ["open://air"]
    assert set(listed(client(served, revision, token("chief")))[1]) >= {"open://air", "safe://gold"}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("ask", "hidden", "nothing"),
    [
        (get, "Hub_pay", "Hub_pan"),
        (read, "safe://gold", "safe://tin"),
        (read, "trips://Oslo/weather", "tripz://Oslo/weather"),
        (read, "trips://Os%6Co/weather", "tripz://Os%6Co/weather"),
        (read, "notes://7", "noted://7"),
        (lambda client, name: complete(client, type="ref/prompt", name=name), "Hub_pay", "Hub_pan"),
        (lambda client, uri: complete(client, type="ref/resource", uri=uri), "notes://{number}", "noted://{number}"),
    ],
)
def test_what_may_not_be_had_looks_like_what_is_not_there(
    ruled: tuple[Served, Path], client: Connect, revision: str, ask: Any, hidden: str, nothing: str
) -> None:
    served, _ = ruled
    ada, chief = client(served, revision, token("ada")), client(served, revision, token("chief"))
    refused, missing = ask(ada, hidden), ask(chief, nothing)
    shown = [
        (each.status, sorted(name for name, _ in each.reply.getheaders()), each.body().replace(name.encode(), b"NAME"))
        for each, name in ((refused, hidden), (missing, nothing))
    ]
    assert shown[0] == shown[1]
    assert b'"error"' in shown[0][-1]
    assert "result" in ask(chief, hidden).response()


def test_a_link_opens_nothing_that_rules_close(ruled: tuple[Served, Path], client: Connect) -> None:
    served, _ = ruled
    ada, chief = client(served, MODERN, token("ada")), client(served, MODERN, token("chief"))
    for each in (ada, chief):
        each.call("Hub_Kit_Link").result()
    assert "error" in read(ada, "notes://7").response()
    assert text(read(chief, "notes://7")) == "Note 7."


def test_scopes_that_are_missing_are_told(ruled: tuple[Served, Path], client: Connect) -> None:
    refused = read(client(ruled[0], MODERN, token("ada")), "open://air")
    assert refused.status == 403
    assert 'scope="air"' in (refused.header("www-authenticate") or "")


def test_each_is_in_the_audit_log(ruled: tuple[Served, Path], client: Connect) -> None:
    served, folder = ruled
    eve = client(served, MODERN, token("eve"))
    for ask, name in ((get, "Hub_pack"), (get, "Hub_pay"), (read, "trips://Riga/weather"), (read, "safe://gold")):
        ask(eve, name).response()
    said = toolyard("audit", "tail", "-n", "1000", "--json", folder=folder)
    entries = [json.loads(line) for line in said.out.splitlines()]
    assert [(each["kind"], each["tool"]) for each in entries if each.get("sub") == "eve"] == [
        ("prompt", "prompts/Hub_pack"),
        ("refused", "prompts/Hub_pay"),
        ("resource", "resources/trips://Riga/weather"),
        ("refused", "resources/safe://gold"),
    ]


def test_they_count_as_calls_do(tmp_path: Path, inner: str, client: Connect) -> None:
    limits = [{"tools": "prompts/*", "calls_per_minute": 1}, {"tools": "resources/*", "calls_per_minute": 1}]
    with outer(tmp_path, {"name": "Hub", "mcp": inner}, limits=limits) as served:
        ada = client(served)
        until_there(ada)
        for ask, name in ((get, "Hub_pack"), (read, "safe://gold")):
            assert "result" in ask(ada, name).response()
            assert "Too many calls" in ask(ada, name).error()["message"]


# -- one that is not there -------------------------------------------------------------------------


def test_one_that_is_gone_is_listed_and_says_when_to_come_back(tmp_path: Path, client: Connect) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(yard(tmp_path))
        hub = {"name": "Hub", "mcp": f"{other.address}/mcp"}
        served = stack.enter_context(outer(tmp_path, hub))
        ada = client(served)
        until_there(ada)
        before = listed(ada)
        other.end(9)

        def is_known() -> bool:
            response = get(ada, "Hub_pack").response()
            return "error" in response

        until(is_known)
        for ask, name in ((get, "Hub_pack"), (read, "safe://gold"), (read, "trips://Oslo/weather")):
            error = ask(ada, name).error()
            assert error["code"] == -32603
            assert error["message"].startswith("Hub cannot be reached; try again in")
            assert error["data"]["toolyard/error"]["can_retry"] is True
            assert error["data"]["toolyard/error"]["retry_after_ms"] > 0
        assert listed(ada) == before


def test_one_that_never_was_there_delays_nothing(tmp_path: Path, inner: str, client: Connect) -> None:
    """Nobody knows what it has, so the server says that it may have all of it."""
    nowhere = {"name": "Nowhere", "mcp": "http://127.0.0.1:9/mcp"}
    with outer(tmp_path, nowhere) as served:
        ada = client(served)
        assert ada.result("server/discover")["capabilities"]["prompts"] == {"listChanged": True}
        assert listed(ada) == ([], [], [])
        assert get(ada, "Nowhere_x").error()["code"] == -32602
