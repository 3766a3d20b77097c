"""`Depends` and `Context[…]`: what a tool is given from the lifespan, how long it lasts, and what is refused."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, assert_type

import pytest

from toolyard import App, Context, Depends, InvalidInput, ToolError, Toolkit
from toolyard.model.errors import DefinitionError
from toolyard.testing import async_client, call, client


@dataclass
class Database:
    rows: dict[str, str] = field(default_factory=lambda: {"7": "tea"})
    events: list[str] = field(default_factory=list)


@dataclass
class Shop:
    db: Database


def get_db(resources: Shop) -> Database:
    return resources.db


class Cleaned(Exception):
    """What a clean-up raises."""


def plain(resources: Shop) -> Database:
    resources.db.events.append("open")
    return resources.db


async def awaited(resources: Shop) -> Database:
    await asyncio.sleep(0)
    resources.db.events.append("open")
    return resources.db


def generator(resources: Shop) -> Iterator[Database]:
    resources.db.events.append("open")
    try:
        yield resources.db
    finally:
        resources.db.events.append("close")


async def async_generator(ctx: Context[Shop]) -> AsyncIterator[Database]:
    ctx.resources.db.events.append("open")
    try:
        yield ctx.resources.db
    finally:
        await asyncio.sleep(0)
        ctx.resources.db.events.append("close")


MAKERS = pytest.mark.parametrize("maker", [plain, awaited, generator, async_generator])


def shop_of(kit: Toolkit, db: Database) -> App:
    async def lifespan() -> AsyncIterator[Shop]:
        yield Shop(db)

    return App(kit, lifespan=lifespan)


# --- types ---------------------------------------------------------------------------------------


def test_a_typed_context_has_typed_resources() -> None:
    """What the types are is mypy's to say: an `ignore` that is not needed is an error."""
    kit = Toolkit("Kit")

    @kit.tool
    def find(order: str, ctx: Context[Shop]) -> str:
        """Finds."""
        assert_type(ctx.resources, Shop)
        assert_type(ctx.resources.db.rows, dict[str, str])
        return ctx.resources.db.rows[order]

    @kit.tool
    def maybe(ctx: Context[Shop] | None = None) -> bool:
        """Is also called without a server."""
        return ctx is not None

    @kit.tool
    def wrong(ctx: Context[Shop]) -> str:
        """Asks for what is not there."""
        return str(ctx.resources.cash)  # type: ignore[attr-defined]

    @kit.tool
    def anything(ctx: Context) -> Any:
        """Has no type for them."""
        return ctx.resources.db.rows

    app = shop_of(kit, Database())
    assert [tool.input_schema["properties"] for tool in app.tools] == [{"order": {"type": "string"}}, {}, {}, {}]
    assert call(app, "Kit.Find", {"order": "7"}) == "tea"
    assert call(app, "Kit.Maybe") is True
    assert call(app, "Kit.Anything") == {"7": "tea"}


# --- what a tool is given ------------------------------------------------------------------------


@MAKERS
@pytest.mark.parametrize("runs", ["thread", "inline"])
def test_a_dependency_is_made_for_the_call_and_cleaned_up_after_it(
    maker: Any, runs: Literal["thread", "inline"]
) -> None:
    db, kit = Database(), Toolkit("Kit")
    seen: list[list[str]] = []

    if runs == "thread":

        @kit.tool
        def find(order: str, db: Annotated[Database, Depends(maker)]) -> str:
            """Finds."""
            assert threading.current_thread() is not threading.main_thread()
            seen.append(list(db.events))
            return db.rows[order]

    else:

        @kit.tool(name="Find")
        async def find_async(order: str, db: Annotated[Database, Depends(maker)]) -> str:
            """Finds."""
            seen.append(list(db.events))
            return db.rows[order]

    app = shop_of(kit, db)
    assert app.tools[0].input_schema["properties"] == {"order": {"type": "string"}}
    assert call(app, "Kit.Find", {"order": "7"}) == "tea"
    assert seen == [["open"]]
    assert db.events == (["open", "close"] if "generator" in maker.__name__ else ["open"])
    with pytest.raises(InvalidInput):
        call(app, "Kit.Find", {"order": "7", "db": {}})


def test_a_dependency_is_made_once_a_call_and_after_what_it_needs() -> None:
    db, kit = Database(), Toolkit("Kit")

    def base(resources: Shop) -> Iterator[int]:
        resources.db.events.append("base")
        yield 1
        resources.db.events.append("base closed")

    async def left(base: Annotated[int, Depends(base)], ctx: Context[Shop]) -> AsyncIterator[int]:
        ctx.resources.db.events.append("left")
        yield base + 1
        ctx.resources.db.events.append("left closed")

    def right(base: Annotated[int, Depends(base)], left: Annotated[int, Depends(left)], factor: int = 10) -> int:
        return base + left * factor

    @kit.tool
    async def add(
        right: Annotated[int, Depends(right)], left: Annotated[int, Depends(left)], ctx: Context[Shop]
    ) -> list[int]:
        """Adds."""
        ctx.resources.db.events.append("tool")
        return [left, right]

    app = shop_of(kit, db)
    for _ in range(2):
        db.events.clear()
        assert call(app, "Kit.Add") == [2, 21]
        assert db.events == ["base", "left", "tool", "left closed", "base closed"]


def test_calls_at_once_have_dependencies_of_their_own() -> None:
    kit, both = Toolkit("Kit"), asyncio.Barrier(2)
    made: list[object] = []

    async def fresh(ctx: Context) -> object:
        made.append(object())
        await both.wait()
        return made[-1] if ctx.user_id == "b" else made[0]

    @kit.tool
    async def one(made: Annotated[object, Depends(fresh)]) -> int:
        """One."""
        return id(made)

    async def two() -> tuple[Any, Any]:
        async with async_client(kit) as bound:
            return await asyncio.gather(bound.call("Kit.One", user_id="a"), bound.call("Kit.One", user_id="b"))

    first, second = asyncio.run(two())
    assert first != second


@pytest.mark.parametrize("is_async", [True, False])
def test_a_clean_up_sees_the_tools_error_and_cannot_make_it_a_result(is_async: bool) -> None:
    kit, heard = Toolkit("Kit"), []

    def swallowing() -> Iterator[int]:
        try:
            yield 1
        except ToolError as error:
            heard.append(error.message)

    @kit.tool
    def plain(one: Annotated[int, Depends(swallowing)]) -> int:
        """Fails."""
        raise ToolError("No")

    @kit.tool(name="Awaited")
    async def awaited(one: Annotated[int, Depends(swallowing)]) -> int:
        """Fails."""
        raise ToolError("No")

    with pytest.raises(ToolError, match=r"^No$"):
        call(kit, "Kit.Awaited" if is_async else "Kit.Plain")
    assert heard == ["No"]


def test_what_a_dependency_raises_is_how_the_call_ends() -> None:
    kit = Toolkit("Kit")

    async def closed() -> int:
        raise ToolError("The shop is closed", can_retry=False)

    def broken() -> Iterator[int]:
        yield 1
        raise Cleaned("secret reason")

    @kit.tool
    def first(one: Annotated[int, Depends(closed)]) -> int:
        """Never runs."""
        return one

    @kit.tool
    async def second(one: Annotated[int, Depends(broken)]) -> int:
        """Ends badly."""
        return one

    with client(kit) as bound:
        with pytest.raises(ToolError, match=r"^The shop is closed$"):
            bound.call("Kit.First")
        with pytest.raises(ToolError, match=r"^Kit.Second failed unexpectedly$"):
            bound.call("Kit.Second")


def test_a_call_that_runs_out_of_time_is_cleaned_up_after() -> None:
    db, kit = Database(), Toolkit("Kit")

    @kit.tool(timeout=0.05)
    async def slow(db: Annotated[Database, Depends(async_generator)]) -> None:
        """Waits for ever."""
        await asyncio.Event().wait()

    with pytest.raises(ToolError, match="took longer than"):
        call(shop_of(kit, db), "Kit.Slow")
    assert db.events == ["open", "close"]


def test_a_lambda_and_a_method_are_functions_too() -> None:
    kit, db = Toolkit("Kit"), Database()

    class Makers:
        def rows(self, db: Annotated[Database, Depends(get_db)]) -> dict[str, str]:
            return db.rows

    @kit.tool
    def both(
        rows: Annotated[dict[str, str], Depends(Makers().rows)],
        db: Annotated[Database, Depends(lambda resources: resources.db)],
    ) -> bool:
        """Are they one?"""
        return rows is db.rows

    assert call(shop_of(kit, db), "Kit.Both") is True


def test_an_input_schema_of_the_authors_own_cannot_bring_a_dependency() -> None:
    kit = Toolkit("Kit")

    @kit.tool(input_schema={"type": "object", "properties": {"one": {"type": "integer"}}})
    def both(one: Annotated[int, Depends(lambda: 1)], **more: int) -> list[Any]:
        """Both."""
        return [one, more]

    assert call(kit, "Kit.Both", {"one": 5, "two": 2}) == [1, {"two": 2}]


PROCESS_TOOLS = """
import os
from typing import Annotated
from toolyard import App, Depends, Toolkit

kit = Toolkit("Kit")

def get_db(resources):
    yield resources

async def get_later(db: Annotated[dict, Depends(get_db)]):
    return db["7"]

@kit.tool(runs="process")
def plain(db: Annotated[dict, Depends(get_db)]) -> str:
    "Finds."
    return db["7"]

@kit.tool(runs="process")
async def awaited(tea: Annotated[str, Depends(get_later)]) -> str:
    "Finds."
    return tea

async def lifespan():
    yield {"7": f"tea of {os.getpid()}"}

app = App(kit, lifespan=lifespan)
"""


def test_a_child_process_has_dependencies_of_its_own_lifespan(tmp_path: Path) -> None:
    from toolyard.runners.loader import load

    file = tmp_path / "depending_tools.py"
    file.write_text(PROCESS_TOOLS)
    (app,) = load(str(file))
    with client(app) as bound:
        first = bound.call("Kit.Plain")
        assert first.startswith("tea of ")
        assert bound.call("Kit.Awaited").startswith("tea of ")


# --- what is refused -----------------------------------------------------------------------------


def first_of_circle(b: "Annotated[int, Depends(second_of_circle)]") -> int:
    return b


def second_of_circle(a: Annotated[int, Depends(first_of_circle)]) -> int:
    return a


def needs_input(order: str) -> int:
    return len(order)


def positional(resources: Any, /) -> int:
    return 1


@pytest.mark.parametrize(
    ("depends", "sentence"),
    [
        (
            Depends(first_of_circle),
            "find has dependencies that need each other: first_of_circle, which needs second_of_circle, which needs "
            "first_of_circle",
        ),
        (
            Depends(needs_input),
            "needs_input has a parameter 'order' that nobody can give it; a dependency is given 'resources', what the "
            "lifespan yielded, a Context, or order: Annotated[…, Depends(…)]",
        ),
        (
            Depends(positional),
            "positional has a positional-only parameter 'resources'; a dependency's arguments come by",
        ),
        (Depends(Database), "has Depends(Database), which is not a function; write lambda resources: … or a def"),
        (Depends, "find has Depends without a function at 'db'; write Depends(function)"),
    ],
)
def test_what_cannot_be_injected_is_refused_when_the_tool_is_defined(depends: Any, sentence: str) -> None:
    def find(db: Any) -> int:
        """Finds."""
        return 1

    find.__annotations__["db"] = Annotated[int, depends]
    find.__qualname__ = "find"
    with pytest.raises(DefinitionError) as refused:
        Toolkit("Kit").tool(find)
    assert sentence in refused.value.message
    assert refused.value.place is not None
    assert refused.value.place.file == __file__


def test_a_dependency_as_a_default_is_refused() -> None:
    def find(db: Any = Depends(get_db)) -> int:  # noqa: B008
        """Finds."""
        return 1

    with pytest.raises(DefinitionError, match=r"has db=Depends\(…\); write db: Annotated\[…, Depends\(…\)\]"):
        Toolkit("Kit").tool(find)


@pytest.mark.parametrize("runs", ["inline", "process"])
def test_a_plain_tool_cannot_await_where_there_is_no_thread(runs: Literal["inline", "process"]) -> None:
    def find(db: Annotated[Database, Depends(awaited)]) -> int:
        """Finds."""
        return 1

    tool: Callable[..., Any] = Toolkit("Kit").tool(runs=runs)
    with pytest.raises(DefinitionError) as refused:
        tool(find)
    assert refused.value.message == (
        f"find is not async and has runs='{runs}', where its dependency awaited, which is async, cannot be awaited; "
        'make the tool async def, or use runs="thread"'
    )
