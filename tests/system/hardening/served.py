"""The tools that the servers of these tests serve."""

import asyncio
from typing import Annotated, Any

from pydantic import Field

from toolyard import ToolError, Toolkit, authorization, secret, user_id

kit = Toolkit("Kit", version="1.0.0", description="For tests.")
opened = asyncio.Event()


@kit.tool
async def echo(value: Any) -> Any:
    """Gives back what it got."""
    return value


@kit.tool
async def half(number: float) -> float:
    """Divides by two."""
    return number / 2


@kit.tool
async def count(number: int) -> int:
    """Gives back a whole number."""
    return number


@kit.tool
async def fail() -> None:
    """Fails, and says all that can be said of it."""
    raise ToolError(
        "It failed",
        developer_message="on purpose",
        can_retry=True,
        retry_after_ms=5,
        additional_prompt_content="Try again.",
    )


@kit.tool(requires=[authorization("google", scopes=["mail"]), secret("KEY"), user_id])
async def locked() -> None:
    """Needs everything."""


@kit.tool
async def wait() -> str:
    """Waits until somebody calls Kit.Open."""
    await opened.wait()
    opened.clear()
    return "opened"


@kit.tool
async def open() -> None:
    """Ends the wait of Kit.Wait."""
    opened.set()


@kit.tool
async def match(text: Annotated[str, Field(pattern=r"^(a+)+$")]) -> int:
    """Takes a text of a pattern that a careless engine takes forever to refuse."""
    return len(text)


@kit.tool
async def strings(items: set[str]) -> int:
    """Takes strings, each once."""
    return len(items)


@kit.tool
async def numbers(items: Annotated[list[float], Field(json_schema_extra={"uniqueItems": True})]) -> int:
    """Takes numbers, each once."""
    return len(items)


@kit.tool
async def objects(
    items: Annotated[list[dict[str, Any]], Field(json_schema_extra={"uniqueItems": True})],
) -> int:
    """Takes objects, each once."""
    return len(items)


@kit.tool
async def rows(items: list[dict[str, int]] | list[list[int]] | None) -> int:
    """Takes a table in one of two forms."""
    return len(items or ())


Leaf = int | list[int] | dict[str, int]
Branch = Leaf | list[Leaf] | dict[str, Leaf]
Twig = Branch | list[Branch] | dict[str, Branch]


@kit.tool
async def nested(value: Twig | list[Twig] | dict[str, Twig]) -> str:
    """Takes one of many forms within forms."""
    return type(value).__name__
