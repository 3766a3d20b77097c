"""Nothing is promised of a call before it is in the ledger, and what is known by its key is answered before anything of
the author's runs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import AfterValidator

from toolyard import ToolError, Toolkit
from toolyard.client.protocols import WIRES
from toolyard.model.call import CallTool, Outcome
from toolyard.model.caller import LOCAL
from toolyard.model.errors import Busy, StillRunning
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.testing import InProcessTransport

kit = Toolkit("Kit", version="1.0.0")
ran: list[str] = []
checked: list[str] = []
grumpy = False
let_go = asyncio.Event()


def look(text: str) -> str:
    """An author's validator, which raises when it is told to."""
    checked.append(text)
    if grumpy:
        raise RuntimeError("not today")
    return text


def small(text: str) -> bool:
    checked.append(text)
    return False


@kit.tool(concurrency=1)
async def alone(seconds: float) -> str:
    """One at a time."""
    ran.append("alone")
    await asyncio.sleep(seconds)
    return "done"


@kit.tool(concurrency=1)
async def held() -> str:
    """One at a time, until it is let go."""
    ran.append("held")
    await let_go.wait()
    return "done"


@kit.tool
async def quick() -> str:
    """At once."""
    ran.append("quick")
    return "done"


@kit.tool
async def validated(text: Annotated[str, AfterValidator(look)]) -> str:
    """Has a validator."""
    ran.append(text)
    return text


@kit.tool(approval=small)
async def judged(text: str) -> str:
    """Has a function that decides about approvals."""
    ran.append(text)
    return text


@kit.tool(task="required")
async def tasked(text: Annotated[str, AfterValidator(look)]) -> str:
    """Only as a task."""
    ran.append(text)
    return text


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    global grumpy, let_go
    ran.clear()
    checked.clear()
    grumpy, let_go = False, asyncio.Event()


class Asker:
    def __init__(self, yard: Yard) -> None:
        self._sending = InProcessTransport(yard)

    async def outcome(self, tool: str, call_id: str, **input: Any) -> Outcome:
        wire = WIRES["oxp"]
        reply = await self._sending.send(wire.encode_request(CallTool(tool, input, call_id)))
        return wire.decode_outcome(reply)


Scene = Callable[[Yard, Asker], Coroutine[Any, Any, None]]


@pytest.fixture(params=["sqlite", "postgres"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    def play(scene: Scene, **settings: Any) -> None:
        if request.param == "postgres":
            settings |= {"store": request.getfixturevalue("postgres_url"), "secret_key": "7" * 64}
        yard = Yard([kit], exactly(**settings))

        async def live() -> None:
            async with asyncio.timeout(30), yard.lifetime():
                await scene(yard, Asker(yard))

        asyncio.run(live())

    return play


def is_still_running(outcome: Outcome) -> bool:
    return outcome.error is not None and "still running" in outcome.error.message


def test_who_stands_in_line_is_promised_nothing(play: Callable[..., None]) -> None:
    """Whoever is told that a call runs finds it in the ledger, at that moment."""

    async def scene(yard: Yard, asker: Asker) -> None:
        async def checked(call_id: str) -> bool:
            outcome = await asker.outcome("Kit.Alone", call_id, seconds=0.3)
            there = await yard.store.get(LOCAL.tenant, LOCAL.subject, call_id)
            assert there is not None, "a promise about a call that is not there"
            return is_still_running(outcome)

        assert any(await asyncio.gather(*(checked(f"c{number}") for number in range(3))))

    play(scene, sync_wait_s=0.01, queue_wait_s=5)


def test_who_stood_in_line_for_too_long_is_told_so_and_nothing_ran(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        first = asyncio.create_task(asker.outcome("Kit.Held", "first"))
        while not ran:
            await asyncio.sleep(0.01)
        with pytest.raises(Busy):
            await asker.outcome("Kit.Held", "second")
        assert await yard.store.get(LOCAL.tenant, LOCAL.subject, "second") is None
        let_go.set()
        await first
        assert ran == ["held"]

    play(scene, sync_wait_s=0.01, queue_wait_s=0.1)


def test_a_write_that_takes_long_is_waited_for(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        begin, may = yard.store.begin, asyncio.Event()

        async def locked(*given: Any) -> Any:
            await may.wait()
            return await begin(*given)

        monkeypatch.setattr(yard.store, "begin", locked)
        call = asyncio.create_task(asker.outcome("Kit.Quick", "c"))
        joined = asyncio.create_task(asker.outcome("Kit.Quick", "c"))
        done, _ = await asyncio.wait((call, joined), timeout=0.1)
        assert not done
        may.set()
        for outcome in await asyncio.gather(call, joined):
            assert bytes(outcome.value or b"") == b'"done"' or is_still_running(outcome)
        assert await yard.store.get(LOCAL.tenant, LOCAL.subject, "c") is not None
        while is_still_running(await asker.outcome("Kit.Quick", "c")):
            pass
        assert ran == ["quick"]

    play(scene, sync_wait_s=0.01)


def test_a_server_that_leaves_does_not_promise_what_stands_in_line(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        first = asyncio.create_task(asker.outcome("Kit.Held", "first"))
        while not ran:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(asker.outcome("Kit.Held", "second"))
        while len(yard._recorded._running) < 2:
            await asyncio.sleep(0)
        yard.let_go()
        with pytest.raises(Busy):
            await second
        assert await yard.store.get(LOCAL.tenant, LOCAL.subject, "second") is None
        let_go.set()
        assert (await first).value is not None

    play(scene)


@pytest.mark.parametrize("tool", ["Kit.Validated", "Kit.Judged"])
def test_a_replay_runs_nothing_of_the_authors(play: Callable[..., None], tool: str) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        global grumpy
        first = await asker.outcome(tool, "c", text="a")
        seen = list(checked)
        grumpy = True
        for _ in range(2):
            assert bytes((await asker.outcome(tool, "c", text="a")).value or b"") == bytes(first.value or b"")
        assert checked == seen
        assert ran == ["a"]

    play(scene)


def test_many_at_once_of_a_tool_with_validators_are_one_execution(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        outcomes = await asyncio.gather(*(asker.outcome("Kit.Validated", "c", text="a") for _ in range(20)))
        assert {bytes(outcome.value or b"") for outcome in outcomes} == {b'"a"'}
        assert ran == ["a"]

    play(scene)


def test_a_task_that_is_asked_for_again_runs_nothing_of_the_authors(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        global grumpy
        from toolyard.model.channel import QuietChannel

        tool = yard.engine.resolve("Kit.Tasked", LOCAL)
        numbers = set()
        for _ in range(3):
            command = CallTool("Kit.Tasked", {"text": "a"}, "c", wire="mcp-task", family="mcp")
            numbers.add(await yard.engine.start(tool, command, LOCAL, QuietChannel()))
            grumpy = True
        assert len(numbers) == 1
        assert checked == ["a"]

    play(scene)


def test_a_new_key_is_checked_as_ever(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        global grumpy
        grumpy = True
        failed = await asker.outcome("Kit.Validated", "c", text="a")
        assert isinstance(failed.error, ToolError)
        assert not isinstance(failed.error, StillRunning)
        assert ran == []

    play(scene)


def test_a_session_that_sends_a_tool_use_again_runs_nothing_of_the_authors(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, asker: Asker) -> None:
        global grumpy
        sessions, direct = yard._sessions, InProcessTransport(yard)
        assert sessions is not None
        from toolyard.wires.contract import Request

        async def post(path: str, body: Any) -> Any:
            headers = {b"content-type": b"application/json"}
            reply = await direct.send(Request("POST", path, headers, msgspec.json.encode(body)))
            assert reply.status < 300, reply.body
            return msgspec.json.decode(reply.body)

        id = (await post("/v1/sessions", {"tools": []}))["sessionId"]
        use = {"type": "tool_use", "id": "u", "name": "Kit_Validated", "input": {"text": "a"}}
        message = {"role": "assistant", "content": [use]}
        await post(f"/v1/sessions/{id}/messages", message)
        grumpy = True
        await post(f"/v1/sessions/{id}/messages", message)
        assert checked == ["a"]

    play(scene)
