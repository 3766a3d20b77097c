"""Sessions: a model's tool uses become requests, all or none, and each has a result."""

import asyncio
from typing import Annotated

import msgspec
import pytest
from pydantic import AfterValidator

from tests.engine.room import ADA, BOB, Listener, Room, until
from toolyard import Toolkit
from toolyard.engine.requests import At
from toolyard.engine.wait import Wait
from toolyard.model.errors import InvalidInput, KeyConflict, LimitReached, PathNotFound
from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord
from toolyard.model.session import NewSession, Session, SessionTool, ToolUse
from toolyard.model.worker import Response
from toolyard.model.writes import Claimant
from toolyard.trust.limits.limits import Limit

kit = Toolkit("Kit", version="1.0.0")
ran: list[str] = []
checked: list[str] = []


async def results_of(room: Room, wait_s: float) -> list[CallRecord] | None:
    """All pages of a session's results."""
    results = await room.sessions.results(ADA, "s", Wait(wait_s, Listener()))
    if results is None:
        return None
    calls: list[CallRecord] = []
    while not results.is_over:
        calls += await results.next()
    return calls


def check(text: str) -> str:
    checked.append(text)
    return text


@kit.tool
async def say(text: str) -> str:
    """Says it."""
    ran.append(text)
    return text


@kit.tool
async def validated(text: Annotated[str, AfterValidator(check)]) -> str:
    """Has a validator of its author's."""
    ran.append(text)
    return text


@kit.tool(approval="always")
async def risky() -> str:
    """Needs a person's yes."""
    ran.append("risky")
    return "done"


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()
    checked.clear()


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
OWN = SessionTool("own", "The session's.", NUMBER)
SESSION = Session("s", "default", "ada", [OWN], {})
"""Put into the ledger as it is where calls are limited: to open one would count."""


async def opened(room: Room, *tools: SessionTool) -> None:
    await room.sessions.open(ADA, "s", NewSession(tools or (OWN,), {"about": "weather"}))


async def take(room: Room, *uses: ToolUse) -> list[CallRecord]:
    return await room.sessions.take(ADA, "s", uses, str)


def use(id: str, text: str = "a", name: str = "Kit_Say") -> ToolUse:
    return ToolUse(id, name, {"text": text})


async def test_a_session_is_its_callers() -> None:
    async with Room(kit) as room:
        await opened(room)
        found = await room.sessions.find(ADA, "s")
        assert ([tool.name for tool in found.tools], found.metadata) == (["own"], {"about": "weather"})
        for look in (room.sessions.find(BOB, "s"), room.sessions.standing(BOB, "s"), room.sessions.find(ADA, "t")):
            with pytest.raises(PathNotFound):
                await look


@pytest.mark.parametrize(
    ("tool", "at"),
    [
        (SessionTool("Kit_Say", "", {}), "tools[0].name"),
        (SessionTool("own", "", {"type": "nothing"}), "tools[0].input_schema"),
        (SessionTool("own", "", {}, {"pattern": "("}), "tools[0].output_schema"),
    ],
)
async def test_a_tool_that_cannot_be_served_is_refused_with_its_place(tool: SessionTool, at: str) -> None:
    async with Room(kit) as room:
        with pytest.raises(InvalidInput) as refused:
            await opened(room, tool)
        assert [problem.path for problem in refused.value.problems] == [at]
        with pytest.raises(PathNotFound):
            await room.sessions.find(ADA, "s")


async def test_there_are_only_so_many_tools_and_tool_uses() -> None:
    async with Room(kit, quotas={"session_tools": {"caller": 1}, "tool_uses": {"caller": 1}}) as room:
        with pytest.raises(InvalidInput):
            await opened(room, OWN, SessionTool("other", "", {}))
        await opened(room)
        with pytest.raises(InvalidInput):
            await take(room, use("a"), use("b"))
        assert await room.rows() == []


async def test_a_tool_of_the_server_runs_at_once_and_its_result_is_the_turns() -> None:
    async with Room(kit) as room:
        await opened(room)
        await take(room, use("a"), use("b", "b"))
        results = await results_of(room, 20.0)
        assert results is not None
        assert [(call.key.call_id, call.value) for call in results] == [("a", b'"a"'), ("b", b'"b"')]
        assert sorted(ran) == ["a", "b"]


async def test_a_tool_of_the_session_waits_for_whoever_works_on_it() -> None:
    async with Room(kit) as room:
        await opened(room)
        (call,) = await take(room, ToolUse("a", "own", {"n": 1}))
        assert (call.state, call.queue, call.session) == (State.PENDING, "session", "s")
        assert await results_of(room, 0.0) is None
        waiting = asyncio.create_task(results_of(room, 1000.0))
        await room.requests.respond(At(Claimant("default", "ada"), "s", "a"), Response({"n": 2}))
        results = await waiting
        assert results is not None
        assert [msgspec.json.decode(each.value or b"") for each in results] == [{"n": 2}]


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (ToolUse("a", "nothing"), "nothing"),
        (ToolUse("a", "own", {"n": "one"}), "n:"),
        (ToolUse("a", "Kit_Say", {}), "text"),
        (ToolUse("a", "Kit_Say", raw="{", problem="The input is not JSON"), "The input is not JSON"),
    ],
)
async def test_what_cannot_run_is_a_result_and_the_model_is_told_why(refused: ToolUse, why: str) -> None:
    async with Room(kit) as room:
        await opened(room)
        await take(room, refused, use("b"))
        results = await results_of(room, 20.0)
        assert results is not None
        first, second = results
        assert (first.code, first.effects, second.code) == ("rejected", "none", "success")
        assert why in msgspec.json.decode(first.error or b"")["message"]


async def test_the_same_message_again_is_the_same_calls() -> None:
    async with Room(kit) as room:
        await opened(room)
        first = await take(room, use("a"))
        await room.ended(first[0].seq)
        again = await take(room, use("a"))
        assert [call.seq for call in again] == [call.seq for call in first]
        assert ran == ["a"]


async def test_a_known_use_has_nothing_of_the_authors_run() -> None:
    async with Room(kit) as room:
        await opened(room)
        for _ in range(3):
            (call,) = await take(room, use("a", name="Kit_Validated"))
            await room.ended(call.seq)
        assert checked == ["a"]


async def test_a_use_with_another_input_is_refused_with_all_of_its_message() -> None:
    async with Room(kit) as room:
        await opened(room)
        await take(room, use("a"))
        with pytest.raises(KeyConflict):
            await take(room, use("new"), use("a", "other"))
        assert len(await room.rows()) == 1
        await until(lambda: ran == ["a"])


async def test_one_use_too_many_refuses_all_of_the_message_and_counts_none() -> None:
    async with Room(kit, limits=(Limit("l", calls_per_minute=2),)) as room:
        await room.store.create_session(SESSION)
        with pytest.raises(LimitReached):
            await take(room, use("a"), use("b"), use("c"))
        assert await room.rows() == []
        await take(room, use("a"), use("b"))
        assert len(await room.rows()) == 2


async def test_what_was_taken_before_is_not_limited() -> None:
    async with Room(kit, limits=(Limit("l", calls_per_minute=1),)) as room:
        await room.store.create_session(SESSION)
        (call,) = await take(room, use("a"))
        for _ in range(3):
            assert [each.seq for each in await take(room, use("a"))] == [call.seq]
        with pytest.raises(LimitReached):
            await take(room, use("b"))


async def test_a_known_use_of_the_sessions_own_tool_counts_once() -> None:
    async with Room(kit, limits=(Limit("l", calls_per_minute=2),)) as room:
        await room.store.create_session(SESSION)
        for id in ("a", "b"):
            for _ in range(3):
                await take(room, ToolUse(id, "own", {"n": 1}))
        with pytest.raises(LimitReached):
            await take(room, ToolUse("c", "own", {"n": 1}))


@pytest.mark.parametrize(
    "waits", [ToolUse("a", "own", {"n": 1}), ToolUse("a", "Kit_Risky")], ids=["for a worker", "for a yes"]
)
async def test_only_so_many_wait(waits: ToolUse) -> None:
    async with Room(kit, quotas={"waiting_calls": {"caller": 1}}) as room:
        await opened(room)
        await take(room, waits)
        for another in (ToolUse("b", "own", {"n": 1}), ToolUse("b", "Kit_Risky")):
            with pytest.raises(LimitReached):
                await take(room, another)
        assert len(await take(room, waits)) == 1, "that one is not new"
        await take(room, use("c"))
        assert len(await room.rows()) == 2, "what runs here does not wait"


async def test_a_use_that_needs_a_yes_waits_for_it_and_then_runs() -> None:
    async with Room(kit) as room:
        await opened(room)
        (call,) = await take(room, ToolUse("a", "Kit_Risky"))
        assert (call.state, call.waiting_for, ran) == (State.PENDING, "approval", [])
        await room.approvals.decide(call, approved=True, by="op")
        await room.restarts.start_all()
        results = await results_of(room, 20.0)
        assert results is not None
        assert [each.value for each in results] == [b'"done"']


async def test_what_happens_is_told_in_order_and_who_waits_hears_of_it() -> None:
    async with Room(kit) as room:
        await opened(room)
        assert await room.sessions.events("s", 0, 100, 0.0) == []
        waiting = asyncio.create_task(room.sessions.events("s", 0, 100, 1000.0))
        await room.store.check()
        await take(room, ToolUse("a", "own", {"n": 1}))
        events = await waiting
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert {event.kind for event in events} == {"request", "session"}
        assert await room.sessions.events("s", events[-1].number, 100, 0.0) == []


async def test_a_recorded_use_that_nobody_runs_is_run_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store failed just when it was recorded."""
    async with Room(kit) as room:
        await opened(room)
        with monkeypatch.context() as patch:
            patch.setattr(room.durable, "go_on", lambda *given: None)
            (call,) = await take(room, use("a"))
        assert ran == []
        await take(room, use("a"))
        assert (await room.ended(call.seq)).value == b'"a"'
