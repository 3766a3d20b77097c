"""Tools whose results say which program ran them: the one that wrote a ledger, or the one that it was upgraded to."""

import asyncio
import os
from pathlib import Path

from toolyard import ToolError, Toolkit

yard = Toolkit("Yard", version="1.0.0")
PROGRAM = os.environ["YARD_PROGRAM"]
"""`before` or `after` the upgrade."""


@yard.tool
async def stamp(text: str) -> str:
    """Says which program ran it."""
    return f"{text}, {PROGRAM}"


@yard.tool
async def large() -> str:
    """More than fits into a row."""
    return ("x" if PROGRAM == "before" else "y") * 300_000


@yard.tool
async def fail() -> str:
    """Fails, and says which program ran it."""
    raise ToolError(f"it failed {PROGRAM} the upgrade")


@yard.tool(on_lost="unknown")
async def once() -> str:
    """Does not end before the upgrade, and must not run twice."""
    return await ended_only_after("once")


@yard.tool(idempotent=True)
async def again() -> str:
    """Does not end before the upgrade, and may run twice."""
    return await ended_only_after("again")


async def ended_only_after(mark: str) -> str:
    Path(f"{mark}.{PROGRAM}").touch()  # noqa: ASYNC240
    if PROGRAM == "before":
        await asyncio.Event().wait()
    return PROGRAM
