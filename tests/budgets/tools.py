"""What the server of the budgets serves."""

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
