"""Tools that go on until a file says that they may end, so that a test decides what runs when a server is told to
stop."""

import asyncio
from pathlib import Path

from toolyard import Context, Toolkit

kit = Toolkit("Held", version="1.0.0")


@kit.tool(idempotent=True)
async def wait(name: str, ctx: Context) -> str:
    """Says that it has begun, and ends when it may."""
    ctx.progress(1, 2)
    begin(name)
    while not may_end(name):
        await asyncio.sleep(0.02)
    return name


@kit.tool(concurrency=1)
async def alone(name: str, ctx: Context) -> str:
    """The same, and others wait for it meanwhile."""
    return await wait(name, ctx)


def begin(name: str) -> None:
    with Path(f"began-{name}").open("a") as began:
        began.write("x")


def may_end(name: str) -> bool:
    return Path(f"end-{name}").exists()


@kit.tool(read_only=True)
async def pause(text: str) -> str:
    """Takes a moment, as many tools do."""
    await asyncio.sleep(0.05)
    return text


@kit.tool(read_only=True)
async def quick(text: str) -> str:
    """Says it again."""
    return text


@kit.tool
async def ask(ctx: Context) -> str:
    """Asks a person."""
    answer: str = await ctx.ask("Who?", str, name="who")
    return answer
