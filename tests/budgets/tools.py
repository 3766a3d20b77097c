"""What the server of the budgets serves."""

import asyncio
from typing import Annotated, Any

from pydantic import Field

from toolyard import Context, Toolkit, secret

kit = Toolkit("Kit", version="1.0.0", description="For tests.")


@kit.tool
async def echo(value: Any) -> Any:
    """Gives back what it got."""
    return value


@kit.tool
async def total(values: list[int]) -> int:
    """Adds them up."""
    return sum(values) % 1000


@kit.tool
async def different(values: Annotated[list[float], Field(json_schema_extra={"uniqueItems": True})]) -> int:
    """Counts them."""
    return len(values)


@kit.tool
async def large(size: int) -> str:
    """A long text, for little."""
    return "x" * size


@kit.tool
async def hidden(size: int) -> str:
    """A text that has nothing to see in it."""
    return "\u202e" * size


@kit.tool(requires=secret("KEY"))
async def secretive(text: str, times: int, ctx: Context) -> str:
    """A long text, from which a secret is kept out."""
    return text * times


@kit.tool
async def ask(ctx: Context) -> str:
    """Asks for a name."""
    return str(await ctx.ask("Who?", {"type": "object", "properties": {"name": {"type": "string"}}}, name="who"))


_waiting: list[asyncio.Future[str]] = []


@kit.tool
async def together(count: int, size: int) -> str:
    """One text, which so many calls return in the same moment."""
    _waiting.append(asyncio.get_running_loop().create_future())
    mine = _waiting[-1]
    if len(_waiting) == count:
        text = "x" * size
        for each in _waiting:
            each.set_result(text)
        _waiting.clear()
    return await mine


@kit.tool
async def told(size: int, ctx: Context) -> str:
    """A long text, of which something is told before."""
    ctx.progress(1, 2, "soon")
    await asyncio.sleep(0.1)
    return "x" * size
