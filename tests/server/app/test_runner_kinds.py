"""A new kind of runner is a class and one line in the composition root's table: its tools are listed, called over every
wire, with and without a key, checked and recorded like any other."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from toolyard import AsyncClient, InvalidInput, ToolError
from toolyard.client.protocols import WIRES
from toolyard.model.call import CallTool, Outcome, ResultExtra
from toolyard.model.caller import LOCAL
from toolyard.model.lifecycle import State
from toolyard.model.record import CallRecord
from toolyard.model.run import RichResult, Run
from toolyard.model.tool import Host, Origin, Tool, ToolkitInfo, Version
from toolyard.server.app.compose import Yard
from toolyard.server.http.reply_budget import LARGE_REPLY, MOST_READS
from toolyard.server.settings.table import exactly
from toolyard.store.values import Filter
from toolyard.testing import InProcessTransport

RICH: dict[str, Any] = {
    "rich": {"hit": 1},
    "raw": Raw(b'{"hit": 1}'),
    "large": {"hit": 1},
    "rich cow": "a cow",
    "raw cow": Raw(b'"a cow"'),
    "no json": Raw(b"{"),
}
"""Values that come back with content beside them."""


class Catapult:
    """Throws calls over a wall, and waits for what comes back."""

    waits_for_claim = can_ask = takes_meta = False
    has_foreign_schemas = True
    place = "over the wall"

    def __init__(self) -> None:
        self.thrown: list[tuple[str, dict[str, Any], bytes]] = []
        self.is_closed = False
        self.lands = asyncio.Event()
        self.lands.set()

    async def run(self, arguments: dict[str, Any], run: Run) -> Any:
        self.thrown.append((run.tool.id, arguments, run.input_json))
        await asyncio.sleep(0)
        await self.lands.wait()
        if arguments["stone"] == "dud":
            raise ToolError("It fell short")
        if arguments["stone"] in RICH:
            text = "Hit!" * (LARGE_REPLY if arguments["stone"] == "large" else 1)
            return RichResult(
                RICH[arguments["stone"]], ResultExtra(Raw(b'[{"type":"text","text":"%b"}]' % text.encode()))
            )
        return {"hit": len(arguments["stone"])} if arguments["stone"] != "strange" else "a cow"

    async def close(self) -> None:
        self.is_closed = True


class Stone:
    """A tool's function that is somewhere else: its input goes there as it is."""

    is_async, has_validators = True, False
    origin = Origin("", "the other side", 0)

    def bind(self, input: Mapping[str, Any]) -> dict[str, Any]:
        return dict(input)

    def invoke(self, arguments: dict[str, Any], run: Run) -> Any:
        raise AssertionError("it is not here")

    def dump(self, value: Any) -> Any:
        return value


THROW = Tool(
    toolkit=ToolkitInfo("Siege", "Besieges.", Version(1)),
    name="Throw",
    version=Version(1),
    wire_name="Siege_Throw",
    description="Throws a stone.",
    input_schema={
        "type": "object",
        "properties": {"stone": {"type": "string"}},
        "required": ["stone"],
        "additionalProperties": False,
    },
    output_schema={"type": "object", "properties": {"hit": {"type": "integer"}}, "required": ["hit"]},
    code=Stone(),
    host=Host(),
    runs="catapult",
)
Scene = Callable[[Yard, Catapult], Coroutine[Any, Any, None]]


def play(scene: Scene, **settings: Any) -> Catapult:
    catapult = Catapult()

    async def live() -> None:
        yard = Yard([], exactly(**settings))
        yard.runners["catapult"] = catapult
        yard.catalogue.add(THROW)
        async with asyncio.timeout(30), yard.lifetime():
            await scene(yard, catapult)

    asyncio.run(live())
    return catapult


async def called(yard: Yard, stone: object, call_id: str | None) -> Outcome:
    """Over OXP, with a key only where one is given."""
    wire = WIRES["oxp"]
    request = wire.encode_request(CallTool("Siege.Throw", {"stone": stone}, call_id))
    return wire.decode_outcome(await InProcessTransport(yard).send(request))


async def recorded(yard: Yard) -> CallRecord:
    assert yard._recorder is not None
    await yard._recorder.flush()
    (found,) = await yard.store.listed(Filter(None, tool="Siege.Throw"))
    whole = await yard.store.row(found.seq)
    assert whole is not None
    return whole


@pytest.mark.parametrize("call_id", [None, "key"])
def test_a_call_reaches_the_runner_and_is_recorded(call_id: str | None) -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        outcome = await called(yard, "granite", call_id)
        assert msgspec.json.decode(outcome.value or b"") == {"hit": 7}
        assert catapult.thrown == [("Siege.Throw", {"stone": "granite"}, b'{"stone":"granite"}')]
        row = await recorded(yard)
        assert (row.queue, row.code, row.value) == ("node", "success", b'{"hit":7}')
        assert (row.input, row.keyed) == (b'{"stone":"granite"}', call_id is not None)

    play(scene)


def test_a_call_with_a_key_runs_once() -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        first, second = await asyncio.gather(called(yard, "granite", "key"), called(yard, "granite", "key"))
        third = await called(yard, "granite", "key")
        assert first.value == second.value == third.value
        assert len(catapult.thrown) == 1

    play(scene)


@pytest.mark.parametrize("call_id", [None, "key"])
def test_input_that_breaks_the_schema_is_refused_before_it_leaves(call_id: str | None) -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        with pytest.raises(InvalidInput):
            await called(yard, 7, call_id)
        assert catapult.thrown == []

    play(scene)


@pytest.mark.parametrize("call_id", [None, "key"])
def test_a_result_that_breaks_the_schema_is_a_failure(call_id: str | None) -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        outcome = await called(yard, "strange", call_id)
        assert outcome.error is not None
        assert outcome.error.message == "Siege.Throw failed unexpectedly"
        assert (await recorded(yard)).code == "tool_failed"

    play(scene)


@pytest.mark.parametrize("call_id", [None, "key"])
@pytest.mark.parametrize("stone", RICH)
def test_of_a_result_with_content_the_value_is_checked(stone: str, call_id: str | None) -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        outcome = await called(yard, stone, call_id)
        row = await recorded(yard)
        if stone in ("rich", "raw", "large"):
            assert (outcome.error, row.value) == (None, b'{"hit":1}')
            assert (row.extra or b"").startswith(b'{"content":[{"type":"text","text":"Hit!')
        else:
            assert outcome.error is not None
            assert outcome.error.message == "Siege.Throw failed unexpectedly"
            assert (row.code, row.extra) == ("tool_failed", None)

    play(scene)


@pytest.mark.parametrize("wire", ["oxp", "mcp"])
def test_a_reply_with_much_beside_its_value_waits_for_a_place_in_memory(wire: Any) -> None:
    """The value alone is small. The ledger has all of it meanwhile."""

    async def scene(yard: Yard, catapult: Catapult) -> None:
        places = [await yard._replies.place(LOCAL) for _ in range(MOST_READS)]
        async with AsyncClient(wire=wire, sending=InProcessTransport(yard)) as client:
            calling = asyncio.create_task(client.call("Siege.Throw", {"stone": "large"}, call_id="key"))
            while not await yard.store.listed(Filter(None, state=State.COMPLETE)):
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not calling.done()
            places[0].give()
            assert await calling == {"hit": 1}

    play(scene)


def test_a_failure_on_purpose_is_told() -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        outcome = await called(yard, "dud", None)
        assert outcome.error is not None
        assert outcome.error.message == "It fell short"

    play(scene)


def test_it_is_listed_and_called_over_mcp() -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        async with AsyncClient(wire="mcp", sending=InProcessTransport(yard)) as client:
            assert [tool["name"] for tool in await client.list()] == ["Siege_Throw"]
            assert await client.call("Siege_Throw", {"stone": "granite"}, call_id="key") == {"hit": 7}
            with pytest.raises(ToolError):
                await client.call("Siege_Throw", {"stone": "dud"}, call_id="other")
        assert len(catapult.thrown) == 2

    play(scene)


def test_a_slow_call_goes_on_and_is_collected() -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        catapult.lands.clear()
        calling = asyncio.create_task(called(yard, "granite", None))
        while not await yard.store.listed(Filter(None)):
            await asyncio.sleep(0)
        catapult.lands.set()
        late = await calling
        assert late.error is not None
        assert late.error.message.startswith("The tool is still running")
        row = await recorded(yard)
        assert (row.key.call_id, row.value) == (late.call_id, b'{"hit":7}')

    play(scene, sync_wait_s=0.01)


def test_the_console_says_where_it_runs_and_a_stopping_server_closes_it() -> None:
    async def scene(yard: Yard, catapult: Catapult) -> None:
        assert yard.engine.plans.place_of(THROW) == "over the wall"
        assert not catapult.is_closed

    assert play(scene).is_closed
