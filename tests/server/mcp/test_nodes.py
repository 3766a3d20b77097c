"""Two nodes on one PostgreSQL, behind a proxy that sends every request to the other one: no client can tell."""

import asyncio
from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client as SdkClient

from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly

from ...postgres import Server as PostgresServer
from ...worker.processes import until
from .proxy import RoundRobin, proxying
from .schemas import MODERN, OLDER
from .serving import SECRET, Server, Start, starting
from .stage import Stage
from .talking import WITH_TASKS, Newer, Older, accepted, connect, text_of

ALL: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Pair:
    """Two nodes, and the proxy before them."""

    def __init__(self, one: Server, other: Server, proxy: RoundRobin, store: str = "") -> None:
        self.one, self.other, self.url, self.proxy, self.store = one, other, proxy.url, proxy, store

    @property
    def urls(self) -> list[str]:
        return [self.one.url, self.other.url]

    def decide(self, *, approved: bool = True) -> None:
        """About the call that waits for it, as a person would, at a third node."""

        async def decided() -> None:
            yard = Yard([], exactly(store=self.store, secret_key=SECRET))
            await yard.store.open()
            try:
                (call,) = await yard._decisions.approvals.waiting()
                await yard._decisions.approvals.decide(call, approved=approved, by="a test")
            finally:
                await yard.store.close()

        asyncio.run(decided())


def settings(database: str) -> dict[str, str]:
    return {"store": database, "secret_key": SECRET, "lease_s": "1"}


@pytest.fixture(scope="session")
def pair(postgres_server: PostgresServer, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """For all the tests that leave it as it is."""
    database = postgres_server.create()
    with starting(tmp_path_factory.mktemp("nodes"), stage) as start:
        common = settings(postgres_server.url_of(database)) | {"approvals": '[{"tools": "Kit.Numbers"}]'}
        one, other = start(**common), start(**common)
        with proxying(one.port, other.port) as proxy:
            yield Pair(one, other, proxy, common["store"])
    postgres_server.drop(database)


@pytest.fixture
def mortals(start: Start, postgres_url: str) -> Iterator[Pair]:
    """One of which may be killed."""
    one, other = start(**settings(postgres_url)), start(**settings(postgres_url))
    with proxying(one.port, other.port) as proxy:
        yield Pair(one, other, proxy)


# --- the official client -------------------------------------------------------------------------


async def asked(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def until_visited(stage: Stage, name: str) -> Any:
    return await asyncio.to_thread(stage.visit, name)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_lists_calls_is_asked_and_cancels(pair: Pair, stage: Stage, name: str, mode: str) -> None:
    async def scenario() -> None:
        async with SdkClient(pair.url, mode=mode, elicitation_callback=asked) as client:
            assert len((await client.list_tools()).tools) > 10
            for number in range(6):
                result = await client.call_tool("Kit_Add", {"a": number, "b": 0})
                assert result.content[0].text == str(number)  # type: ignore[union-attr]
            asking = asyncio.create_task(client.call_tool("Play_Act", {"name": name}))
            visit = await until_visited(stage, name)
            for who in ("a", "b", "c"):
                visit.tell("ask", who)
                assert await asyncio.to_thread(visit.hear) == "Ada"
            visit.ends()
            assert (await asking).content[0].text == "done"  # type: ignore[union-attr]
            going = asyncio.create_task(client.call_tool("Play_Act", {"name": name}))
            visit = await until_visited(stage, name)
            going.cancel()
            assert await asyncio.to_thread(visit.hear) == "stopped"
        assert {pair.one.port, pair.other.port} == set(pair.proxy.served)

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_node_is_killed_and_its_clients_go_on(mortals: Pair, stage: Stage, name: str, mode: str) -> None:
    async def scenario() -> None:
        async with SdkClient(mortals.url, mode=mode, elicitation_callback=asked) as client:
            await client.list_tools()
            mortals.one.kill()
            for number in range(4):
                result = await client.call_tool("Kit_Add", {"a": number, "b": 0})
                assert result.content[0].text == str(number)  # type: ignore[union-attr]
            asking = asyncio.create_task(client.call_tool("Play_Act", {"name": name}))
            visit = await until_visited(stage, name)
            visit.tell("ask", "a")
            assert await asyncio.to_thread(visit.hear) == "Ada"
            visit.ends()
            assert (await asking).content[0].text == "done"  # type: ignore[union-attr]

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_official_client_takes_up_the_stream_of_a_node_that_was_killed(
    mortals: Pair, stage: Stage, name: str
) -> None:
    progressed: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progressed.append(progress)

    async def scenario() -> None:
        async with SdkClient(mortals.url, mode="legacy") as client:
            calling = asyncio.create_task(client.call_tool("Play_Again", {"name": name}, progress_callback=on_progress))
            visit = await until_visited(stage, name)
            visit.tell("progress", 1)
            await asyncio.to_thread(visit.hear)
            while not progressed:
                await asyncio.sleep(0.01)
            holder = next(
                each for each in (mortals.one, mortals.other) if each.process and each.process.pid == visit.pid
            )
            holder.kill()
            again = await until_visited(stage, name)
            again.ends("elsewhere")
            assert (await calling).content[0].text == "elsewhere"  # type: ignore[union-attr]

    asyncio.run(asyncio.wait_for(scenario(), 30))


# --- what is said at one node counts at the other ------------------------------------------------


@pytest.mark.parametrize("revision", OLDER)
def test_a_session_is_at_both_nodes_and_ends_at_both(pair: Pair, revision: str) -> None:
    here = Older(pair.one.url, revision, **ALL).initialize()
    there = here.at(pair.other.url)
    assert there.result("ping") == here.result("ping") == {}
    assert there.result("logging/setLevel", {"level": "error"}) == {}
    assert there.delete().status == 204
    assert there.request("ping").status == 404
    until(lambda: here.request("ping").status == 404)  # a node believes what it has read for a second


def test_a_level_that_is_set_at_one_node_counts_at_the_other(pair: Pair, stage: Stage, name: str) -> None:
    here = Older(pair.one.url, "2025-11-25").initialize()
    here.at(pair.other.url).result("logging/setLevel", {"level": "error"})
    exchange = here.act(name)
    visit = stage.visit(name)
    for level in ("info", "error"):
        visit.tell("log", level, level)
        visit.hear()
    visit.ends()
    assert [each["params"]["data"] for each in exchange.rest() if "method" in each] == ["error"]


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_request_at_one_node_is_given_up_at_the_other(pair: Pair, stage: Stage, name: str, has_begun: bool) -> None:
    here = Older(pair.one.url, "2025-11-25").initialize()
    exchange = here.act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    if has_begun:
        visit.tell("progress", 1)
        visit.hear()
        exchange.next()
    here.at(pair.other.url).cancel(exchange.id)
    assert visit.hear() == "stopped"


def test_an_answer_reaches_the_node_that_asked(pair: Pair, stage: Stage, name: str) -> None:
    here = Older(pair.one.url, "2025-11-25", **ALL).initialize()
    exchange = here.act(name)
    visit = stage.visit(name)
    visit.tell("together", "a", "b")
    questions = [exchange.next() for _ in range(2)]
    for question in questions:
        here.at(pair.other.url).answer(question, accepted(name=question["params"]["message"]))
    assert visit.hear() == ["Who is a?", "Who is b?"]
    visit.ends()
    assert text_of(exchange.result()) == "done"


def test_a_stream_of_one_node_is_taken_up_at_the_other(pair: Pair, stage: Stage, name: str) -> None:
    here = Older(pair.one.url, "2025-11-25", **ALL).initialize()
    there = here.at(pair.other.url)
    exchange = here.act(name, meta={"progressToken": 1})
    visit = stage.visit(name)
    visit.tell("progress", 1)
    visit.hear()
    exchange.next()
    exchange.close()
    visit.tell("progress", 2)
    visit.hear()
    rest = there.get(exchange.last_event, {"id": exchange.id, "method": "tools/call"})
    assert rest.next()["params"]["progress"] == 2
    visit.tell("ask", "who")
    there.answer(rest.next(), accepted(name="Ada"))
    assert visit.hear() == "Ada"
    visit.ends("whole")
    assert text_of(rest.result()) == "whole"


def test_a_parked_run_is_answered_at_the_other_node(pair: Pair, stage: Stage, name: str) -> None:
    here, there = Newer(pair.one.url, **ALL), Newer(pair.other.url, **ALL)
    exchange = here.act(name)
    visit = stage.visit(name)
    visit.tell("ask", "first")
    second = there.go_on("Play_Act", name, exchange.result(), {"first": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.tell("ask", "second")
    third = here.go_on("Play_Act", name, second.result(), {"second": accepted(name="Bea")})
    assert visit.hear() == "Bea"
    visit.ends("both")
    assert text_of(third.result()) == "both"


def test_a_parked_run_of_a_node_that_was_killed_goes_on_at_the_other(mortals: Pair, stage: Stage, name: str) -> None:
    here, there = Newer(mortals.one.url, **ALL), Newer(mortals.other.url, **ALL)
    exchange = here.act(name, "Play_Again")
    visit = stage.visit(name)
    visit.tell("ask", "first")
    second = here.go_on("Play_Again", name, exchange.result(), {"first": accepted(name="Ada")})
    assert visit.hear() == "Ada"
    visit.tell("ask", "second")
    asking = second.result()
    mortals.one.kill()
    again = stage.visit(name)
    again.tell("ask", "first")
    assert again.hear() == "Ada"
    again.tell("ask", "second")
    last = there.go_on("Play_Again", name, asking, {"second": accepted(name="Bea")})
    assert again.hear() == "Bea"
    again.ends("both")
    assert text_of(last.result()) == "both"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_task_is_at_both_nodes(pair: Pair, stage: Stage, name: str, revision: str) -> None:
    here = connect(pair.one.url, revision, **WITH_TASKS, **ALL)
    there = (
        here.at(pair.other.url) if isinstance(here, Older) else connect(pair.other.url, revision, **here.capabilities)
    )
    if isinstance(here, Older):
        id = here.act(name, task={}).result()["task"]["taskId"]
        waiting = there.request("tasks/result", {"taskId": id})
        visit = stage.visit(name)
        visit.ends("there")
        assert text_of(waiting.result()) == "there"
        assert id in [each["taskId"] for each in there.result("tasks/list")["tasks"]]
        return
    id = here.act(name, "Play_Preferred").result()["taskId"]
    stream = there.request("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    visit = stage.visit(name)
    visit.tell("ask", "who")
    while (told := stream.next()["params"]).get("status") != "input_required":
        pass
    there.result("tasks/update", {"taskId": id, "inputResponses": {"who": accepted(name="Ada")}})
    assert visit.hear() == "Ada"
    visit.ends("there")
    while (told := stream.next()["params"]).get("status") != "completed":
        pass
    assert text_of(told["result"]) == "there"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_task_is_cancelled_at_the_other_node(pair: Pair, stage: Stage, name: str, revision: str) -> None:
    here = connect(pair.one.url, revision, **WITH_TASKS)
    there = here.at(pair.other.url) if isinstance(here, Older) else connect(pair.other.url, revision, **WITH_TASKS)
    result = (here.act(name, task={}) if isinstance(here, Older) else here.act(name, "Play_Preferred")).result()
    visit = stage.visit(name)
    there.result("tasks/cancel", {"taskId": result.get("task", result)["taskId"]})
    assert visit.hear() == "stopped"


def test_the_same_key_at_both_nodes_runs_once(pair: Pair, stage: Stage, name: str) -> None:
    calls = [connect(url, MODERN).act(name, meta={"toolyard/callId": name}) for url in pair.urls]
    stage.visit(name).ends("once")
    assert [text_of(call.result()) for call in calls] == ["once", "once"]
    assert stage.is_empty(name)


# --- what a person was sent for ------------------------------------------------------------------

ELICITS = "2025-11-25"
URL: dict[str, Any] = {"elicitation": {"url": {}}}


def completed(id: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": id}}


def decided(stream: Any) -> Any:
    """The next that a stream tells of what a person decided. It may also tell of a task that another test has left."""
    while (told := stream.next())["method"] == "notifications/tasks/status":
        pass
    return told


def sent_to(client: Older) -> str:
    """Which elicitation a call was answered with."""
    error = client.call("Kit_Numbers").error()
    assert error["code"] == -32042
    (asked,) = error["data"]["elicitations"]
    id: str = asked["elicitationId"]
    return id


@pytest.mark.parametrize(("where", "approved"), [("here", True), ("here", False), ("there", True), ("later", True)])
def test_who_was_given_an_address_hears_that_the_person_has_decided(pair: Pair, where: str, approved: bool) -> None:
    client, stranger = (Older(pair.one.url, ELICITS, **URL).initialize() for _ in range(2))
    ears = client if where == "here" else client.at(pair.other.url)
    stream = None if where == "later" else ears.get()
    others = stranger.get()
    assert (others.status, stream is None or stream.status == 200) == (200, True)
    id = sent_to(client)
    pair.decide(approved=approved)
    stream = stream or ears.get()
    assert decided(stream) == completed(id)
    assert client.call("Kit_Numbers").result().get("isError", False) is not approved
    theirs = sent_to(stranger)
    pair.decide()
    assert decided(others) == completed(theirs), "it heard of nobody else's"
    stranger.call("Kit_Numbers").result()
    for each in (client, ears, stranger):
        each.close()


def test_who_waits_for_a_task_hears_it_there(pair: Pair) -> None:
    client = Older(pair.one.url, ELICITS, **URL).initialize()
    task = client.call("Kit_Numbers", task={}).result()["task"]["taskId"]
    waiting = client.at(pair.other.url).request("tasks/result", {"taskId": task})
    asked = waiting.next()
    assert asked["method"] == "elicitation/create"
    id = asked["params"]["elicitationId"]
    client.answer(asked, {"action": "accept"})
    pair.decide()
    assert waiting.next() == completed(id)
    assert text_of(waiting.result())
    client.close()
