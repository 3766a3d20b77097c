"""An app: what its tools share is made once and closed once, and its hooks stand around every call."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolyard import App, Context, Run, ToolError, Toolkit
from toolyard.model.errors import DefinitionError, SetupError
from toolyard.model.tool import Proceed
from toolyard.runners.loader import load
from toolyard.testing import async_client, call, client

from ..runners.imports import forgetting

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def in_thread(ctx: Context) -> Any:
    """Tells what it shares."""
    return ctx.resources


@kit.tool
async def on_loop(ctx: Context) -> Any:
    """Tells what it shares."""
    return ctx.resources


@kit.tool(runs="inline")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def lifespan_of(name: str, life: list[str]) -> Callable[[], AsyncIterator[dict[str, str]]]:
    async def lifespan() -> AsyncIterator[dict[str, str]]:
        life.append(f"{name} made")
        try:
            yield {"pool": name}
        finally:
            life.append(f"{name} closed")

    return lifespan


# --- what is shared ------------------------------------------------------------------------------


def test_resources_are_made_once_and_closed_once() -> None:
    life: list[str] = []
    with client(App(kit, lifespan=lifespan_of("db", life))) as yard:
        for tool in ("Kit.InThread", "Kit.OnLoop", "Kit.InThread"):
            assert yard.call(tool) == {"pool": "db"}
        assert life == ["db made"]
    assert life == ["db made", "db closed"]


def test_an_app_may_live_again() -> None:
    life: list[str] = []
    app = App(kit, lifespan=lifespan_of("db", life))
    for _ in range(2):
        assert call(app, "Kit.OnLoop") == {"pool": "db"}
    assert life == ["db made", "db closed"] * 2


def test_several_apps_have_what_is_theirs() -> None:
    life: list[str] = []
    other = Toolkit("Other")
    other.tool(name="OnLoop")(on_loop)
    apps = [App(kit, lifespan=lifespan_of("a", life)), App(other, lifespan=lifespan_of("b", life))]
    with client(*apps) as yard:
        assert yard.call("Kit.OnLoop") == {"pool": "a"}
        assert yard.call("Other.OnLoop") == {"pool": "b"}
    assert life == ["a made", "b made", "b closed", "a closed"]


def test_the_same_toolkit_in_two_apps_shares_what_its_app_shares() -> None:
    apps = [App(kit, lifespan=lifespan_of(name, [])) for name in ("a", "b")]
    assert [call(app, "Kit.InThread") for app in apps] == [{"pool": "a"}, {"pool": "b"}]


def test_one_app_in_two_servers_has_two_lives() -> None:
    made: list[object] = []

    async def lifespan() -> AsyncIterator[int]:
        made.append(object())
        yield len(made)

    app = App(kit, lifespan=lifespan)
    with client(app) as first:
        with client(app) as second:
            assert (first.call("Kit.OnLoop"), second.call("Kit.OnLoop")) == (1, 2)
        assert first.call("Kit.OnLoop") == 1


def test_without_a_lifespan_nothing_is_shared() -> None:
    assert call(App(kit), "Kit.OnLoop") is None
    assert call(kit, "Kit.OnLoop") is None


def test_the_lifespan_and_async_tools_are_on_the_same_loop() -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    same = Toolkit("Same")

    @same.tool
    async def tried() -> None:
        """Notes its loop."""
        loops.append(asyncio.get_running_loop())

    async def lifespan() -> AsyncIterator[None]:
        loops.append(asyncio.get_running_loop())
        yield
        loops.append(asyncio.get_running_loop())

    call(App(same, lifespan=lifespan), "Same.Tried")
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1


class Pool:
    """An async context manager of its own."""

    async def __aenter__(self) -> str:
        return "entered"

    async def __aexit__(self, *_: object) -> None:
        """Leaves."""


@asynccontextmanager
async def decorated() -> AsyncIterator[str]:
    yield "decorated"


@pytest.mark.parametrize(
    ("lifespan", "seen"), [(Pool, "entered"), (lambda: Pool(), "entered"), (decorated, "decorated")]
)
def test_a_lifespan_may_be_any_async_context_manager(lifespan: Any, seen: str) -> None:
    assert call(App(kit, lifespan=lifespan), "Kit.OnLoop") == seen


TOOLS = """
import json, os
from toolyard import App, Context, Toolkit

kit = Toolkit("Kit", version="1.0.0")

@kit.tool(runs="process")
def in_process(ctx: Context) -> list[int]:
    "Tells which process made what it shares, and which it is."
    return [ctx.resources, os.getpid()]

@kit.tool
def in_thread(ctx: Context) -> int:
    "Tells which process made what it shares."
    return ctx.resources

async def lifespan():
    yield os.getpid()
    with open("closed", "a") as file:
        file.write(json.dumps(os.getpid()) + "\\n")

app = App(kit, lifespan=lifespan)
"""


def test_a_process_makes_what_its_tools_share_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "process_app.py").write_text(TOOLS, encoding="utf-8")
    with forgetting(tmp_path), client(*load("process_app.py")) as yard:
        maker, runner = yard.call("Kit.InProcess")
        assert maker == runner != os.getpid()
        assert yard.call("Kit.InThread") == os.getpid()
    closed = [json.loads(line) for line in Path("closed").read_text().splitlines()]
    assert set(closed) == {os.getpid(), runner}


# --- a lifespan that cannot be -------------------------------------------------------------------


def failing(text: str) -> Callable[[], AsyncIterator[None]]:
    async def lifespan() -> AsyncIterator[None]:
        raise RuntimeError(text)
        yield

    return lifespan


def test_what_was_made_is_closed_when_the_start_fails_half_way() -> None:
    life: list[str] = []
    apps = [App(kit, lifespan=lifespan_of("db", life)), App(Toolkit("Other"), lifespan=failing("no network"))]
    with (
        pytest.raises(SetupError, match="the app's lifespan raised RuntimeError: no network") as refusal,
        client(*apps),
    ):
        pass
    assert life == ["db made", "db closed"]
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__
    assert isinstance(refusal.value.__cause__, RuntimeError)


def test_the_others_are_closed_when_one_fails_to_close() -> None:
    life: list[str] = []

    async def lifespan() -> AsyncIterator[None]:
        yield
        raise RuntimeError("cannot close")

    async def live() -> None:
        apps = [App(kit, lifespan=lifespan_of("db", life)), App(Toolkit("Other"), lifespan=lifespan)]
        async with async_client(*apps):
            pass

    with pytest.raises(SetupError, match="RuntimeError: cannot close"):
        asyncio.run(live())
    assert life == ["db made", "db closed"]


def wants_an_app(app: App) -> Iterator[None]:
    yield


def plain_generator() -> Iterator[None]:
    yield


async def coroutine() -> None:
    """Yields nothing."""


@contextmanager
def not_async() -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("lifespan", "sentence"),
    [
        (wants_an_app, "a lifespan is a function without parameters, not <function wants_an_app"),
        (Pool(), "a lifespan is a function without parameters, not <"),
        (3, "a lifespan is a function without parameters, not 3"),
        (plain_generator, "plain_generator cannot be a lifespan; write async def, with one yield"),
        (coroutine, "coroutine cannot be a lifespan; write async def, with one yield"),
    ],
)
def test_what_cannot_be_a_lifespan_is_refused_where_the_app_is_made(lifespan: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence) as refusal:
        App(kit, lifespan=lifespan)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


def test_a_context_manager_that_is_not_async_is_refused_when_it_is_entered() -> None:
    lifespan: Any = not_async
    with pytest.raises(SetupError, match="asynchronous context manager"), client(App(kit, lifespan=lifespan)):
        pass


@pytest.mark.parametrize("thing", [3, "kit", None, add, [App(kit)]])
def test_an_app_takes_toolkits_apps_and_upstreams(thing: Any) -> None:
    with pytest.raises(DefinitionError, match="App takes toolkits, apps and upstreams, not ") as refusal:
        App(thing)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__


def test_an_empty_app_lists_nothing() -> None:
    with client(App()) as yard:
        assert yard.list() == []


# --- hooks ---------------------------------------------------------------------------------------

SUM = {"a": 2, "b": 3}


def hooked(*hooks: Any) -> App:
    app = App(kit)
    for hook in hooks:
        assert app.around(hook) is hook
    return app


def test_the_first_hook_is_outermost() -> None:
    order: list[str] = []

    def noting(name: str) -> Any:
        async def hook(run: Run, proceed: Proceed) -> Any:
            order.append(f"{name} before")
            value = await proceed()
            order.append(f"{name} after")
            return value

        return hook

    assert call(hooked(noting("one"), noting("two")), "Kit.Add", SUM) == 5
    assert order == ["one before", "two before", "two after", "one after"]


def test_a_hook_sees_the_call() -> None:
    seen: list[Any] = []

    async def hook(run: Run, proceed: Proceed) -> Any:
        seen.extend([run.tool.id, run.call_id, run.caller.user_id, run.input])
        return await proceed()

    call(hooked(hook), "Kit.Add", SUM, call_id="c-1", user_id="ada")
    assert seen == ["Kit.Add", "c-1", "ada", SUM]


def test_a_hook_may_change_the_result() -> None:
    async def hook(run: Run, proceed: Proceed) -> Any:
        return await proceed() * 10

    assert call(hooked(hook), "Kit.Add", SUM) == 50


def test_a_changed_result_must_still_fit_the_tools_schema() -> None:
    async def hook(run: Run, proceed: Proceed) -> Any:
        return "five"

    with pytest.raises(ToolError, match=r"Kit\.Add failed unexpectedly"):
        call(hooked(hook), "Kit.Add", SUM)


def test_a_hook_may_answer_without_the_tool() -> None:
    ran: list[str] = []
    quiet = Toolkit("Quiet")

    @quiet.tool
    def tried() -> str:
        """Runs."""
        ran.append("tool")
        return "tool"

    app = App(quiet)

    @app.around
    async def cached(run: Run, proceed: Proceed) -> Any:
        return "cached"

    assert call(app, "Quiet.Tried") == "cached"
    assert ran == []


def test_a_hook_may_try_again() -> None:
    tries: list[int] = []
    shaky = Toolkit("Shaky")

    @shaky.tool
    def tried() -> int:
        """Fails the first time."""
        tries.append(1)
        if len(tries) == 1:
            raise ToolError("not yet")
        return len(tries)

    app = App(shaky)

    @app.around
    async def again(run: Run, proceed: Proceed) -> Any:
        try:
            return await proceed()
        except ToolError:
            return await proceed()

    assert call(app, "Shaky.Tried") == 2


def test_a_hook_may_fail_on_purpose() -> None:
    async def hook(run: Run, proceed: Proceed) -> Any:
        raise ToolError("Not on Sundays", can_retry=False)

    with pytest.raises(ToolError, match="Not on Sundays"):
        call(hooked(hook), "Kit.Add", SUM)


def test_what_else_a_hook_raises_does_not_reach_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async def hook(run: Run, proceed: Proceed) -> Any:
        raise RuntimeError("hush")

    with pytest.raises(ToolError) as failure:
        call(hooked(hook), "Kit.Add", SUM)
    assert failure.value.message == "Kit.Add failed unexpectedly"
    assert failure.value.developer_message is None
    assert "hush" in caplog.text


def test_hooks_stand_around_the_calls_of_their_own_app_only() -> None:
    async def hook(run: Run, proceed: Proceed) -> Any:
        return 0

    assert call(hooked(hook), "Kit.Add", SUM) == 0
    assert call(App(kit), "Kit.Add", SUM) == 5
    assert call(kit, "Kit.Add", SUM) == 5


def sync_hook(run: Run, proceed: Proceed) -> Any:
    return None


async def lacking(run: Run) -> Any:
    return None


@pytest.mark.parametrize(
    ("hook", "sentence"),
    [
        (sync_hook, "sync_hook is not async; write async def"),
        (lacking, "lacking must take two arguments: run, and proceed"),
        (3, "3 cannot be called"),
    ],
)
def test_what_cannot_be_a_hook_is_refused_where_it_is_defined(hook: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence) as refusal:
        App(kit).around(hook)
    assert refusal.value.place is not None
    assert refusal.value.place.file == __file__
    assert refusal.value.place.line


def test_an_object_may_be_a_hook() -> None:
    class Counting:
        async def __call__(self, run: Run, proceed: Proceed) -> Any:
            return await proceed()

    App(kit).around(Counting())
