"""What is recorded is what came and what was answered, whatever the author's code does with its arguments and results;
and one call that cannot be written keeps no other from it."""

import asyncio
from collections.abc import Callable, Coroutine
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BeforeValidator

from toolyard import App, Context, ToolError, Toolkit
from toolyard.client.protocols import WIRES
from toolyard.model.call import CallTool
from toolyard.model.record import CallRecord
from toolyard.server.app.compose import Yard
from toolyard.server.settings.table import exactly
from toolyard.store.values import Filter, StoreDown
from toolyard.testing import InProcessTransport

LARGE = 5000
"""Characters of a text that makes a call too large for a line."""
CAME = {"request": {"headers": {"authorization": "none"}, "list": [1, {"deep": True}]}}
kit = Toolkit("Kit", version="1.0.0")
kept: list[list[Any]] = []


def spoil(request: dict[str, Any], *, how: str = "secret") -> dict[str, Any]:
    """All that a function may do to what it was given."""
    if how == "secret":
        request["headers"]["authorization"] = "canary-81c0"
        request["list"].append("canary-81c0")
    elif how == "object":
        request["headers"]["client"] = object()
    else:
        request["list"].append(request)
    return request


def spoiled(value: dict[str, Any]) -> dict[str, Any]:
    return spoil(value)


def asks(request: dict[str, Any]) -> bool:
    spoil(request)
    return False


HOWS = ["secret", "object", "cycle"]


@kit.tool
async def send(request: dict[str, Any], how: str = "secret") -> str:
    """Changes what it was given."""
    spoil(request, how=how)
    return "sent"


@kit.tool
async def slowly(request: dict[str, Any], how: str = "secret") -> str:
    """The same, and takes its time."""
    spoil(request, how=how)
    await asyncio.sleep(0.2)
    return "sent"


@kit.tool(runs="thread")
def thread(request: dict[str, Any], how: str = "secret") -> str:
    """The same, in a thread."""
    spoil(request, how=how)
    return "sent"


@kit.tool
async def validated(request: Annotated[dict[str, Any], BeforeValidator(spoiled)]) -> str:
    """Its validator does."""
    return "sent"


@kit.tool(approval=asks)
async def asked(request: dict[str, Any]) -> str:
    """The function that decides about approvals does, and the tool does not see it."""
    assert request == CAME["request"]
    return "sent"


@kit.tool
async def hooked(request: dict[str, Any]) -> str:
    """A hook does."""
    return "sent"


@kit.tool
async def keeps(text: str) -> list[str]:
    """Keeps what it returned, and changes it later."""
    kept.append([text])
    return kept[-1]


REUSED = ToolError("first", retry_after_ms=5)


@kit.tool
async def fails() -> str:
    """Raises an error that it changes later."""
    raise REUSED


@kit.tool
async def fails_oddly() -> str:
    """Raises an error of which not everything is JSON."""
    raise ToolError("odd", can_retry="perhaps", retry_after_ms=object(), developer_message=b"x")  # type: ignore[arg-type]


@kit.tool
async def counts(ctx: Context) -> str:
    """Says how far it is with a number that JSON has not."""
    ctx.progress(Fraction(1, 2), Fraction(1, 1))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return "done"


app = App(kit)


@app.around
async def hook(run: Any, proceed: Any) -> Any:
    if run.tool.id == "Kit.Hooked":
        run.input["request"] = spoil(run.input["request"])
    return await proceed()


class Asker:
    """A client that chooses keys only where it is told to."""

    def __init__(self, yard: Yard) -> None:
        self._sending = InProcessTransport(yard)

    async def call(self, tool: str, input: dict[str, Any] | None = None, *, call_id: str | None = None) -> Any:
        wire = WIRES["oxp"]
        reply = await self._sending.send(wire.encode_request(CallTool(tool, input or {}, call_id)))
        outcome = wire.decode_outcome(reply)
        if outcome.error is not None:
            raise outcome.error
        return msgspec.json.decode(outcome.value or b"")


Scene = Callable[[Yard, Asker], Coroutine[Any, Any, None]]


@pytest.fixture(params=["sqlite", "postgres"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Plays a scene on each store, with an audit log that has inputs."""

    def play(scene: Scene, **settings: Any) -> None:
        if request.param == "postgres":
            settings |= {"store": request.getfixturevalue("postgres_url"), "secret_key": "7" * 64}
        yard = Yard([app], exactly(audit_input=True, **settings))

        async def live() -> None:
            async with asyncio.timeout(30), yard.lifetime():
                await scene(yard, Asker(yard))

        asyncio.run(live())

    return play


async def recorded(yard: Yard, tool: str) -> CallRecord:
    """The newest call of a tool, once it is written and has ended."""
    if yard._recorder is not None:
        await yard._recorder.flush()
    (found,) = await yard.store.listed(Filter(None, tool=tool, limit=1))
    whole = await yard.store.row(found.seq)
    assert whole is not None
    return whole


async def audited(yard: Yard) -> list[dict[str, Any]]:
    assert yard.audit is not None
    await yard.audit.written()
    blocks = await yard.store.audit.blocks(yard.audit.chain, 0, 100)
    return [msgspec.json.decode(line) for block in blocks for line in block.entries.splitlines()]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("call_id", [None, "key"])
@pytest.mark.parametrize("tool", ["Kit.Send", "Kit.Slowly", "Kit.Thread"])
def test_ledger_and_audit_have_the_input_as_it_came(
    play: Callable[..., None], tool: str, call_id: str | None, how: str
) -> None:
    came = {**CAME, "how": how}

    async def scene(yard: Yard, client: Asker) -> None:
        fingerprints = []
        for _ in range(2):
            assert await client.call(tool, came, call_id=call_id) == "sent"
            row = await recorded(yard, tool)
            assert msgspec.json.decode(row.input) == came
            said = [entry for entry in await audited(yard) if entry["kind"] == "call"][-1]
            assert said["input"] == came
            fingerprints.append(said["fp"])
        assert fingerprints[0] == fingerprints[1]

    play(scene)


@pytest.mark.parametrize("tool", ["Kit.Validated", "Kit.Asked", "Kit.Hooked"])
@pytest.mark.parametrize("call_id", [None, "key"])
def test_what_runs_beside_the_tool_does_not_change_it_either(
    play: Callable[..., None], tool: str, call_id: str | None
) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        for _ in range(2):
            assert await client.call(tool, CAME, call_id=call_id) == "sent"
        assert msgspec.json.decode((await recorded(yard, tool)).input) == CAME
        assert b"canary" not in msgspec.json.encode(await audited(yard))

    play(scene)


@pytest.mark.parametrize("call_id", [None, "key"])
def test_a_call_that_is_promoted_has_the_input_as_it_came(play: Callable[..., None], call_id: str | None) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        with pytest.raises(ToolError, match="still running"):
            await client.call("Kit.Slowly", CAME, call_id=call_id)
        row = await recorded(yard, "Kit.Slowly")
        assert msgspec.json.decode(row.input) == CAME

    play(scene, sync_wait_s=0.01)


@pytest.mark.parametrize("call_id", [None, "key"])
def test_what_is_answered_is_what_is_recorded(play: Callable[..., None], call_id: str | None) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        assert await client.call("Kit.Keeps", {"text": "a"}, call_id=call_id) == ["a"]
        kept[-1].append(object())
        assert (await recorded(yard, "Kit.Keeps")).value == b'["a"]'
        with pytest.raises(ToolError, match="first"):
            await client.call("Kit.Fails", call_id=call_id and "other")
        REUSED.message, REUSED.retry_after_ms = "second", object()  # type: ignore[assignment]
        try:
            row = await recorded(yard, "Kit.Fails")
        finally:
            REUSED.message, REUSED.retry_after_ms = "first", 5
        assert msgspec.json.decode(row.error or b"") == {"message": "first", "retry_after_ms": 5}

    play(scene)


@pytest.mark.parametrize("call_id", [None, "key"])
def test_an_error_that_is_not_json_is_told_and_recorded_as_far_as_it_is(
    play: Callable[..., None], call_id: str | None
) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        for _ in range(2):
            with pytest.raises(ToolError, match="odd"):
                await client.call("Kit.FailsOddly", call_id=call_id)
        row = await recorded(yard, "Kit.FailsOddly")
        assert msgspec.json.decode(row.error or b"")["message"] == "odd"

    play(scene)


def test_how_far_a_call_is_can_be_said_in_any_number(play: Callable[..., None]) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        assert await client.call("Kit.Counts", call_id="key") == "done"
        await yard._node.tell_progress()

    play(scene)


def test_a_call_that_cannot_be_written_is_missing_alone(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is wrong with it, the others are written, and so is what comes after."""

    async def scene(yard: Yard, client: Asker) -> None:
        recorder = yard._recorder
        assert recorder is not None
        for number in range(3):
            await client.call("Kit.Keeps", {"text": str(number) * LARGE})
        recorder._rows[1][0].input_json = Spoiled()  # type: ignore[assignment]
        await recorder.flush()
        found = await yard.store.listed(Filter(None, tool="Kit.Keeps"))
        assert sorted((each.value or b"")[2:3] for each in found) == [b"0", b"2"]
        assert recorder.lost == 1
        assert "1 calls are missing in the ledger" in caplog.text
        assert await client.call("Kit.Send", CAME, call_id="key") == "sent"
        assert yard.readiness.health == "ok"

    monkeypatch.setattr("toolyard.store.write_behind.FLUSH_S", 3600.0)
    play(scene)


class Cycle(RecursionError):
    """As a write may raise it, of a value that contains itself."""


class Spoiled:
    """A write that cannot even be looked at, or a text that no store takes."""

    def __len__(self) -> int:
        return 1

    @property
    def seq(self) -> int:
        raise Cycle


def test_a_write_that_raises_anything_fails_alone(play: Callable[..., None]) -> None:
    """Those that come with it are made, and the one who waits for it is told."""

    async def scene(yard: Yard, client: Asker) -> None:
        def raises(*_: Any) -> None:
            raise Cycle

        store: Any = yard.store
        await client.call("Kit.Send", CAME, call_id="first")
        (first,) = await store.listed(Filter(None))
        spoiled = store._judged(Spoiled()) if store.shared else store._writer.write(raises)
        cancelled = [store.cancel(first.seq) for _ in range(3)]
        calls = [client.call("Kit.Send", CAME, call_id=f"key-{number}") for number in range(3)]
        made: list[Any] = await asyncio.gather(spoiled, *cancelled, *calls, return_exceptions=True)
        failed, *others = made
        assert isinstance(failed, Exception)
        assert not isinstance(failed, StoreDown)
        assert [each.standing.seq for each in others[:3]] == [first.seq] * 3
        assert others[3:] == ["sent"] * 3
        assert yard.readiness.health == "ok"

    play(scene)


def test_an_outcome_that_cannot_be_written_ends_its_call_as_failed(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(yard: Yard, client: Asker) -> None:
        store, finish = yard.store, yard.store.finish

        async def refuses(seq: int, attempt: int, ending: Any) -> Any:
            if ending.value is not None:
                raise MemoryError
            return await finish(seq, attempt, ending)

        monkeypatch.setattr(store, "finish", refuses)
        for _ in range(2):
            with pytest.raises(ToolError, match="could not be recorded"):
                await client.call("Kit.Keeps", {"text": "a"}, call_id="key")
        assert (await recorded(yard, "Kit.Keeps")).code == "tool_failed"

    play(scene)
