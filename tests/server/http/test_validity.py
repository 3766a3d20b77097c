"""Streams end with the credentials that they were asked for with; what runs behind them goes on."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.operated import until
from tests.cli.processes import toolyard
from tests.server.mcp.conftest import name, stage, start
from tests.server.mcp.serving import Server, Start
from tests.server.mcp.stage import Stage, Visit
from tests.server.mcp.talking import Exchange, Newer, Older, text_of
from tests.system.hardening.raw import ask, request
from toolyard.lazy import load

from ..asking import run
from ..scene import SECRET as SHARED
from ..scene import Scene

__all__ = ["name", "stage", "start"]

SECRET = "correct-horse-battery-staple"
SHORT_S = 2.0
"""Long enough to open a stream in."""
OLDER = "2025-11-25"


def token(ttl_s: float) -> str:
    made: str = load("signed_token")({"sub": "ada", "exp": time.time() + ttl_s}, SECRET)
    return made


class Opened:
    """A stream that is open, and the call behind it if there is one."""

    def __init__(self, exchange: Exchange, client: Any, visit: Visit | None = None) -> None:
        self.exchange, self.client, self.visit = exchange, client, visit

    def ends(self) -> None:
        """Properly: what is cut off cannot be read to its end."""
        assert self.exchange.status == 200
        assert not [each for each in self.exchange.rest() if "result" in each]
        assert self.exchange.reply.isclosed()


Open = Callable[[Server, str, Stage, str], Opened]


def events(server: Server, key: str, stage: Stage, name: str) -> Opened:
    made = ask(server.root, request("POST", "/v1/sessions", bearer(key), b'{"tools": []}'))
    client = Newer(f"{server.root}/v1/sessions/{made.json['sessionId']}/events", key=key)
    exchange = client.wire.send("GET", None, {})
    assert exchange.reply.readline() == b": events\n"
    return Opened(exchange, client)


def changes(server: Server, key: str, stage: Stage, name: str) -> Opened:
    client = Older(server.url, OLDER, key).initialize()
    exchange = client.get()
    assert exchange.reply.readline() == b": changes\n"
    return Opened(exchange, client)


def listening(server: Server, key: str, stage: Stage, name: str) -> Opened:
    client = Newer(server.url, key=key)
    exchange = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert exchange.next()["method"] == "notifications/subscriptions/acknowledged"
    return Opened(exchange, client)


def newer_call(server: Server, key: str, stage: Stage, name: str) -> Opened:
    return _told(Newer(server.url, key=key), stage, name)


def older_call(server: Server, key: str, stage: Stage, name: str) -> Opened:
    return _told(Older(server.url, OLDER, key).initialize(), stage, name)


def resumed(server: Server, key: str, stage: Stage, name: str) -> Opened:
    begun = older_call(server, key, stage, name)
    begun.exchange.close()
    exchange = begun.client.get(begun.exchange.last_event)
    assert exchange.status == 200
    return Opened(exchange, begun.client, begun.visit)


def _told(client: Any, stage: Stage, name: str) -> Opened:
    exchange = client.act(name, "Play_Unmoved", meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("progress", 1)
    assert visit.hear() == "did"
    assert exchange.next()["method"] == "notifications/progress"
    return Opened(exchange, client, visit)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def new_key(server: Server, name: str, *more: str) -> str:
    made = toolyard("keys", "new", name, "--subject", "ada", *more, folder=server.folder)
    assert made.code == 0, made.err
    return made.out.strip()


def revoke(server: Server, name: str) -> None:
    assert toolyard("keys", "revoke", name, folder=server.folder).code == 0


STREAMS = pytest.mark.parametrize("open", [events, changes, listening, newer_call, older_call, resumed])


@STREAMS
def test_a_stream_ends_when_its_token_does(start: Start, stage: Stage, name: str, open: Open) -> None:
    server = start(jwt_secret=SECRET)
    opened = open(server, token(SHORT_S), stage, name)
    opened.ends()
    with_old = opened.client.wire.send("GET", None, {})
    assert with_old.status == 401
    if opened.visit is not None:
        goes_on(server, opened.visit, token(60))


@STREAMS
def test_a_stream_ends_when_its_key_is_revoked(start: Start, stage: Stage, name: str, open: Open) -> None:
    server = start()
    key, other = new_key(server, "first"), new_key(server, "second")
    opened, kept = open(server, key, stage, name), events(server, other, stage, name)
    revoke(server, "first")
    opened.ends()
    assert opened.client.wire.send("GET", None, {}).status == 401
    if opened.visit is not None:
        goes_on(server, opened.visit, other)
    revoke(server, "second")
    kept.ends()


def goes_on(server: Server, visit: Visit, key: str) -> None:
    """The call was not given up with its stream, and is in the ledger as any other."""
    visit.tell("progress", 2)
    assert visit.hear() == "did"
    visit.ends("kept")

    def is_kept() -> bool:
        calls = ask(server.root, request("GET", "/v1/calls", bearer(key))).json["calls"]
        return [call["state"] for call in calls] == ["COMPLETE"]

    until(is_kept)


def test_a_call_that_is_given_up_with_its_client_goes_on_without_its_stream(
    start: Start, stage: Stage, name: str
) -> None:
    """That its client may no longer be told is not that it left."""
    server = start(jwt_secret=SECRET)
    client = Newer(server.url, key=token(SHORT_S))
    exchange = client.act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("progress", 1)
    assert visit.hear() == "did"
    Opened(exchange, client).ends()
    goes_on(server, visit, token(60))


def test_with_new_credentials_a_stream_is_taken_up_again(start: Start, stage: Stage, name: str) -> None:
    server = start(jwt_secret=SECRET)
    opened = older_call(server, token(SHORT_S), stage, name)
    opened.ends()
    assert opened.visit is not None
    opened.visit.ends("at last")
    opened.client.wire.headers["authorization"] = f"Bearer {token(60)}"
    again = opened.client.get(opened.exchange.last_event, {"id": opened.exchange.id, "method": "tools/call"})
    assert text_of(again.result()) == "at last"


def test_a_stream_that_begins_after_its_key_was_revoked_has_nothing_in_it(
    start: Start, stage: Stage, name: str
) -> None:
    server = start()
    key = new_key(server, "first")
    exchange = Newer(server.url, key=key).act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    revoke(server, "first")
    visit.tell("progress", 1)
    assert visit.hear() == "did"
    assert exchange.reply.read() == b""
    visit.ends()


def test_a_key_that_expires_ends_its_streams(start: Start, stage: Stage, name: str) -> None:
    server = start()
    events(server, new_key(server, "first", "--expires", "3s"), stage, name).ends()


def test_a_key_that_is_revoked_elsewhere_ends_its_streams_here(
    start: Start, stage: Stage, name: str, postgres_url: str
) -> None:
    here, there = (start(store=postgres_url, secret_key="7" * 64) for _ in range(2))
    (here.folder / "toolyard.key").write_text("7" * 64)  # the verbs' own
    key = new_key(here, "first", "--store", postgres_url)
    until(lambda: ask(there.root, request("GET", "/tools", bearer(key))).status == 200)
    opened = events(there, key, stage, name)
    assert toolyard("keys", "revoke", "first", "--store", postgres_url, folder=here.folder).code == 0
    opened.ends()


def test_a_stream_ends_through_any_asgi_server() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        """The client stays."""
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    async def scenario() -> None:
        async with Scene() as scene:
            made = await scene.send("owner", "POST", "/v1/sessions", {"tools": []})
            short = load("signed_token")({"sub": "ada", "tenant": "acme", "exp": time.time() + 1}, SHARED)
            scope = {
                "type": "http", "method": "GET", "path": f"/v1/sessions/{made.json['sessionId']}/events",
                "query_string": b"", "headers": [(b"authorization", f"Bearer {short}".encode())],
            }  # fmt: skip
            await scene.yard.asgi(scope, receive, send)

    run(scenario)
    assert (sent[0]["status"], sent[1]["body"], sent[-1]["more_body"]) == (200, b": events\n\n", False)


@pytest.mark.parametrize("how", ["token", "key"])
def test_who_listened_holds_no_stream_after_that(start: Start, stage: Stage, name: str, how: str) -> None:
    server = start(jwt_secret=SECRET, max_streams_per_caller="1")
    if how == "token":
        listening(server, token(SHORT_S), stage, name).ends()
    else:
        opened = listening(server, new_key(server, "first"), stage, name)
        revoke(server, "first")
        opened.ends()
    client = Newer(server.url, key=token(60))
    wanted: dict[str, Any] = {"notifications": {"toolsListChanged": True}}
    until(lambda: "method" in client.request("subscriptions/listen", wanted).next())
