"""Prompts and resources pass what calls pass: the caller's rules, limits, the audit log."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import toolyard
from tests.conformance.serving import running
from toolyard.lazy import load
from toolyard.model.asset import Asset
from toolyard.server.app.compose import Yard
from toolyard.server.mcp.methods.subscriptions import Subscriber
from toolyard.server.settings.table import exactly
from toolyard.trust.access.access import Access, CallerPattern, Rule, read_rules
from toolyard.trust.access.identity import Identity
from toolyard.trust.access.worker_rules import read_worker_rules
from toolyard.wires.mcp.params import SubscriptionFilter

from .schemas import MODERN
from .talking import Client, connect

SECRET = "correct-horse-battery-staple"
TOOLS = '''
from mcp.types import Completion
from toolyard import App, Embedded, Toolkit

kit = Toolkit("Kit")
app = App(kit)


@kit.tool
async def give(uri: str) -> Embedded:
    """Gives a resource."""
    return Embedded(uri, text="given")


@app.mcp.prompt()
def pack(city: str = "Rome") -> str:
    return f"Pack for {city}."


@app.mcp.prompt()
def pay() -> str:
    return "Pay."


@app.mcp.resource("trips://{city}/weather")
def weather(city: str) -> str:
    return f"Sun in {city}."


@app.mcp.resource("safe://gold")
def gold() -> str:
    return "Gold."


@app.mcp.resource("open://air")
def air() -> str:
    return "Air."


@app.mcp.completion()
async def complete(ref, argument, context):
    return Completion(values=["Rome", "Riga"])
'''
ACCESS: list[dict[str, Any]] = [
    {"name": "chief", "who": {"subject": "chief"}},
    {"name": "no gold", "tools": ["resources/safe://*", "resources/trips://Oslo/*"], "allow": False},
    {"name": "packing", "tools": ["prompts/pack", "resources/trips://*", "Kit.*"]},
    {"name": "air", "tools": ["resources/open://*"], "scopes": ["air"]},
]
REVISIONS = pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", MODERN])
Connect = Callable[..., Client]


def token(subject: str, *scopes: str) -> str:
    claims = {"sub": subject, "scope": " ".join(scopes), "exp": time.time() + 600}
    made: str = load("signed_token")(claims, SECRET)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offers")
    (folder / "offers.py").write_text(TOOLS)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    with serving(folder, access=ACCESS) as address:
        yield address


def serving(folder: Path, **more: Any) -> Any:
    (folder / "offers.py").write_text(TOOLS)
    settings = {f"TOOLYARD_{name.upper()}": text_in(value) for name, value in more.items()}
    return running("open", folder, ["offers.py"], {"TOOLYARD_JWT_SECRET": SECRET, **settings})


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def client(server: str) -> Iterator[Connect]:
    made: list[Client] = []

    def connected(revision: str, subject: str, *scopes: str, at: str = "") -> Client:
        made.append(connect(f"{at or server}/mcp", revision, token(subject, *scopes)))
        return made[-1]

    yield connected
    for each in made:
        each.close()


def listed(client: Client) -> tuple[list[str], list[str], list[str]]:
    return (
        [each["name"] for each in client.result("prompts/list")["prompts"]],
        [each["uri"] for each in client.result("resources/list")["resources"]],
        [each["uriTemplate"] for each in client.result("resources/templates/list")["resourceTemplates"]],
    )


def read(client: Client, uri: str) -> Any:
    return client.post(client.made("resources/read", {"uri": uri}), **name_header(client, uri))


def get(client: Client, name: str) -> Any:
    return client.post(client.made("prompts/get", {"name": name}), **name_header(client, name))


def complete(client: Client, **ref: str) -> Any:
    return client.request("completion/complete", {"ref": ref, "argument": {"name": "city", "value": "R"}})


def name_header(client: Client, name: str) -> dict[str, str]:
    return {"mcp_name": name} if client.revision == MODERN else {}


# --- rules ---------------------------------------------------------------------------------------


@REVISIONS
def test_a_list_has_what_its_caller_may_have(client: Connect, revision: str) -> None:
    assert listed(client(revision, "chief")) == (
        ["pack", "pay"],
        ["safe://gold", "open://air"],
        ["trips://{city}/weather"],
    )
    assert listed(client(revision, "ada")) == (["pack"], [], ["trips://{city}/weather"])
    assert listed(client(revision, "ada", "air")) == (["pack"], ["open://air"], ["trips://{city}/weather"])


@REVISIONS
def test_what_may_be_had_is_had(client: Connect, revision: str) -> None:
    ada = client(revision, "ada", "air")
    assert get(ada, "pack").result()["messages"][0]["content"]["text"] == "Pack for Rome."
    assert read(ada, "trips://Riga/weather").result()["contents"][0]["text"] == "Sun in Riga."
    assert read(ada, "open://air").result()["contents"][0]["text"] == "Air."
    assert complete(ada, type="ref/prompt", name="pack").result()["completion"]["values"] == ["Rome", "Riga"]
    template = {"type": "ref/resource", "uri": "trips://{city}/weather"}
    assert complete(ada, **template).result()["completion"]["values"] == ["Rome", "Riga"]


@REVISIONS
@pytest.mark.parametrize(
    ("ask", "hidden", "nothing"),
    [
        (get, "pay", "pan"),
        (read, "safe://gold", "safe://tin"),
        (read, "trips://Oslo/weather", "tripz://Oslo/weather"),
        (read, "trips://Os%6Co/weather", "tripz://Os%6Co/weather"),
        (lambda client, name: complete(client, type="ref/prompt", name=name), "pay", "pan"),
        (lambda client, uri: complete(client, type="ref/resource", uri=uri), "safe://gold", "safe://tin"),
    ],
)
def test_what_may_not_be_had_looks_like_what_is_not_there(
    client: Connect, revision: str, ask: Any, hidden: str, nothing: str
) -> None:
    ada, chief = client(revision, "ada"), client(revision, "chief")
    refused, missing = ask(ada, hidden), ask(chief, nothing)
    shown = [
        (each.status, sorted(name for name, _ in each.reply.getheaders()), each.body().replace(name.encode(), b"NAME"))
        for each, name in ((refused, hidden), (missing, nothing))
    ]
    assert shown[0] == shown[1]
    assert b'"error"' in shown[0][-1]
    assert "result" in ask(chief, hidden).response()


def test_scopes_that_are_missing_are_told(client: Connect) -> None:
    refused = read(client(MODERN, "ada"), "open://air")
    assert refused.status == 403
    assert 'scope="air"' in (refused.header("www-authenticate") or "")


@REVISIONS
def test_what_a_tool_gave_out_is_whoevers_who_got_it(client: Connect, revision: str) -> None:
    """Rules are about what the author offers to everybody."""
    eve = client(revision, "eve")
    eve.call("Kit_Give", {"uri": "safe://gold"}).result()
    assert read(eve, "safe://gold").result()["contents"][0]["text"] == "given"
    assert "error" in read(client(revision, "bob"), "safe://gold").response()


def test_rules_name_prompts_and_resources() -> None:
    rules = read_rules([{"tools": ["prompts/*"]}, {"tools": ["Kit.*", "resources/a://*"], "scopes": "s"}])
    view = Access(rules).view(Identity("default", "ada", "token", frozenset()))
    assert view.lists_offer(Asset("prompts", "any"))
    assert view.of_offer(Asset("resources", "a://x")).lacks == ("s",)
    assert not view.of_offer(Asset("resources", "b://x")).sees
    assert (
        not Access([Rule(("p*", "#prompts", "@read_only"))]).view(Identity("d", "a")).lists_offer(Asset("prompts", "x"))
    )
    everything = Access([Rule(who=CallerPattern(("ada",)))])
    assert everything.view(Identity("default", "ada")).lists_offer(Asset("prompts", "x"))
    assert not everything.view(Identity("default", "bob")).lists_offer(Asset("prompts", "x"))
    assert Access().view(Identity("default", "bob")).lists_offer(Asset("prompts", "x"))
    with pytest.raises(ValueError, match="goes by ids"):
        read_worker_rules([{"tools": ["prompts/*"]}])


def test_a_key_is_for_the_prompts_that_it_names(folder: Path, client: Connect, server: str) -> None:
    made = toolyard("keys", "new", "packer", "--subject", "chief", "--allow", "prompts/pa*", folder=folder)
    limited = connect(f"{server}/mcp", MODERN, made.out.strip())
    assert listed(limited) == (["pack", "pay"], [], [])
    assert limited.result("tools/list")["tools"] == []
    limited.close()


def test_explain_knows_them(folder: Path, server: str) -> None:
    for what, who, code, why in (
        ("prompts/pack", "ada", 0, "packing"),
        ("prompts/pay", "ada", 1, "no rule allows it"),
        ("resources/safe://gold", "ada", 1, "no gold"),
        ("resources/safe://gold", "chief", 0, "chief"),
    ):
        said = toolyard("explain", what, "--as", who, folder=folder)
        assert (said.code, f"because: {why}" in said.out, what in said.out) == (code, True, True)


def test_nobody_is_told_that_something_changed_that_is_not_there_for_them() -> None:
    told: list[str] = []

    def subscriber(subject: str) -> Subscriber:
        caller = Access(read_rules(ACCESS)).caller(Identity("default", subject, "token", frozenset()))
        return Subscriber(
            SubscriptionFilter(uris=["safe://gold"]), lambda *_: told.append(subject), current=caller.current
        )

    async def scenario() -> None:
        subscriptions = Yard([], exactly()).mcp.subscriptions
        with subscriptions.open(), subscriptions.hearing(subscriber("ada")), subscriptions.hearing(subscriber("chief")):
            subscriptions.resource_updated("safe://gold")
            async with asyncio.timeout(10):
                while not told:
                    await asyncio.sleep(0)

    asyncio.run(scenario())
    assert told == ["chief"]


# --- limits --------------------------------------------------------------------------------------


@REVISIONS
def test_they_count_as_calls_do(tmp_path: Path, client: Connect, revision: str) -> None:
    most = 4 if revision == MODERN else 5  # what opens a session counts, too
    limits = [{"calls_per_minute": most}, {"name": "packs", "tools": "prompts/pack", "calls_per_minute": 1}]
    with serving(tmp_path, limits=limits) as at:
        ada, bob = client(revision, "ada", at=at), client(revision, "bob", at=at)
        assert "result" in get(ada, "pack").response()
        assert "packs" in get(ada, "pack").error()["message"], "a limit may name them"
        assert "result" in get(ada, "pay").response()
        assert "result" in read(ada, "open://air").response()
        assert "result" in complete(ada, type="ref/prompt", name="pay").response()
        for refused in (get(ada, "pay"), read(ada, "open://air"), read(ada, "no://thing")):
            assert "Too many calls" in refused.error()["message"]
        assert "result" in get(bob, "pay").response()
        assert ada.call("Kit_Give", {"uri": "x://y"}).result()["isError"], "calls and prompts count together"
        assert listed(ada)[0] == ["pack", "pay"], "lists do not count"


# --- the audit log -------------------------------------------------------------------------------


def test_each_is_in_the_audit_log_before_its_answer(tmp_path: Path, client: Connect) -> None:
    with serving(tmp_path, access=ACCESS, audit="strict") as at:
        ada = client(MODERN, "ada", at=at)
        for ask, name in ((get, "pack"), (get, "pay"), (read, "trips://Riga/weather"), (read, "safe://gold")):
            ask(ada, name).response()
        listed(ada)
        said = toolyard("audit", "tail", "-n", "100", "--json", folder=tmp_path)
        entries = [json.loads(line) for line in said.out.splitlines()]
        shown = [(each["kind"], each["tool"]) for each in entries if each.get("sub") == "ada"]
        assert shown == [
            ("prompt", "prompts/pack"),
            ("refused", "prompts/pay"),
            ("resource", "resources/trips://Riga/weather"),
            ("refused", "resources/safe://gold"),
        ]
        assert {each["from"] for each in entries if each.get("sub") == "ada"} == {"127.0.0.1"}
