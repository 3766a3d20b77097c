"""Tools that say which process runs them, and wait where they are told to."""

import asyncio
import os
from pathlib import Path

from toolyard import Context, Toolkit

kit = Toolkit("Kit", version="1.0.0")
marks = Path(os.environ["MARKS"])


def mark(text: str) -> None:
    """Appends a line: one write, so that all processes may do it at once."""
    with marks.open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


@kit.tool(read_only=True)
async def where() -> int:
    """Says in which process it runs."""
    return os.getpid()


@kit.tool
async def once(text: str, ctx: Context) -> int:
    """Leaves a mark, stays for a moment, and says where it was."""
    mark(f"{text} {os.getpid()}")
    await asyncio.sleep(0.02)
    return os.getpid()


@kit.tool(idempotent=True)
async def again(text: str, ctx: Context) -> int:
    """The same, but it may run again where an attempt is lost."""
    mark(f"{text} {os.getpid()}")
    await asyncio.sleep(0.02)
    return os.getpid()


@kit.tool(idempotent=True)
async def stay(text: str) -> int:
    """The same, and it stays until the test lets it go."""
    mark(f"{text} {os.getpid()}")
    while not marks.with_suffix(".released").exists():
        await asyncio.sleep(0.02)
    return os.getpid()


@kit.tool(approval="always")
async def pay(cents: int) -> int:
    """Runs once somebody has agreed."""
    return cents


@kit.tool
async def ask(ctx: Context) -> str:
    """Asks its caller something."""
    answer: str = await ctx.ask("How are you?", str)
    return answer


@kit.tool
async def rare() -> int:
    """Is limited."""
    return os.getpid()


@kit.tool
async def tell(text: str, ctx: Context) -> None:
    """Writes a line to the log."""
    ctx.log(text, level="warning")
