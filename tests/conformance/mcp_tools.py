"""The tools that the rows of `mcp.yaml` call, beside the reference toolkits."""

import asyncio
from base64 import b64decode
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from toolyard import Audio, Context, Embedded, Hidden, Icon, Image, ResourceLink, ToolError, Toolkit, user_id

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
STEP_S = 0.05

shop = Toolkit("Shop", version="1.0.0", description="Results of every kind.")
desk = Toolkit("Desk", version="1.0.0", description="Questions, tasks, and what takes its time.")


class Weather(TypedDict):
    celsius: float
    sky: str


# --- results -------------------------------------------------------------------------------------


@shop.tool(
    wire_name="greet",
    title="A greeting",
    icons=[Icon("https://example.com/hand.png", "image/png", ("48x48",))],
    read_only=True,
    destructive=False,
)
async def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


@shop.tool(wire_name="Greet")
async def greet_loudly(name: str) -> str:
    """Greets loudly."""
    return f"HELLO, {name.upper()}!"


@shop.tool
async def weather(city: str) -> Weather:
    """Tells the weather."""
    return {"celsius": 21.5, "sky": f"clear over {city}"}


@shop.tool
async def count(upto: Annotated[int, Field(ge=1, le=9)]) -> list[int]:
    """Counts."""
    return list(range(1, upto + 1))


@shop.tool
async def nothing() -> None:
    """Does nothing."""


@shop.tool
async def broken() -> Weather:
    """Returns what it does not say it returns."""
    return {"celsius": "warm"}  # type: ignore[typeddict-item]


@shop.tool
async def careless() -> str:
    """Fails in a way that nobody thought of."""
    raise RuntimeError("the password is hunter2")


@shop.tool
async def refuse() -> str:
    """Fails with a word for whoever looks after it."""
    raise ToolError(
        "The shop is closed", developer_message="shop.open is false", additional_prompt_content="Try Monday."
    )


@shop.tool
async def picture() -> Image:
    """Gives a picture."""
    return Image(PNG, "image/png", annotations={"audience": ["user"], "priority": 0.9})


@shop.tool
async def sound() -> Audio:
    """Gives a sound."""
    return Audio(b"RIFF", "audio/wav")


@shop.tool
async def link() -> ResourceLink:
    """Says where something is."""
    return ResourceLink("file:///project/main.rs", "main.rs", mime_type="text/x-rust")


@shop.tool
async def report(day: str) -> Embedded:
    """Gives a report."""
    return Embedded(f"report:{day}", text="All is well.", mime_type="text/plain", annotations={"priority": 0.7})


@shop.tool
async def everything() -> list[str | Image | ResourceLink]:
    """Gives a text, a picture and a link."""
    return ["Look:", Image(PNG, "image/png"), ResourceLink("file:///project/main.rs", "main.rs")]


@shop.tool
async def balance(currency: str, account: Annotated[str, Hidden]) -> str:
    """Tells the balance."""
    return f"{account}: 12 {currency}"


@shop.tool
async def deliver(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Delivers to a region."""
    return f"Delivered to {region}"


# --- while they run ------------------------------------------------------------------------------


@desk.tool
async def count_down(ctx: Context) -> str:
    """Says how far it is, and logs."""
    for done in (1, 2):
        ctx.progress(done, 2, f"step {done}")
        ctx.log(f"did {done}", level="warning")
        await asyncio.sleep(STEP_S)
    return "done"


@desk.tool
async def sleep(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "awake"


@desk.tool(concurrency=1)
async def alone(seconds: float) -> str:
    """One at a time."""
    await asyncio.sleep(seconds)
    return "alone"


@desk.tool
async def tally(ctx: Context) -> str:
    """Tells under which id it runs."""
    return ctx.call_id


@desk.tool
async def book(ctx: Context) -> str:
    """Asks for a city."""
    return f"Booked {await ctx.ask('Where to?', str, name='city')}"


@desk.tool(asks="form")
async def insist(ctx: Context) -> str:
    """Cannot do without an answer."""
    return f"Booked {await ctx.ask('Where to?', str, name='city')}"


@desk.tool(task="required")
async def must(seconds: float = 0.0) -> str:
    """Is a task, always."""
    await asyncio.sleep(seconds)
    return "done as a task"


@desk.tool(task="forbidden")
async def never() -> str:
    """Is never a task."""
    return "done at once"


@desk.tool(task="preferred")
async def rather(seconds: float = 0.0) -> str:
    """Is a task for whoever can have one."""
    await asyncio.sleep(seconds)
    return "done rather"


@desk.tool(task="preferred")
async def closed() -> str:
    """Fails as a task."""
    raise ToolError("The desk is closed")


@desk.tool(task="preferred", timeout=0.2)
async def forever() -> str:
    """Never ends by itself."""
    await asyncio.Event().wait()
    return "never"


@desk.tool(task="preferred")
async def book_later(ctx: Context) -> str:
    """Asks for a city, as a task."""
    return f"Booked {await ctx.ask('Where to?', str, name='city')}"


@desk.tool
def chatter() -> str:
    """Prints."""
    print("chatter")  # noqa: T201
    return "said"


@desk.tool(requires=user_id)
async def who(ctx: Context) -> str:
    """Tells for whom it runs."""
    return f"for {ctx.user_id}"
