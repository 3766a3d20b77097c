"""Tools for servers with limits."""

import asyncio
from collections import defaultdict

from toolyard import Toolkit

kit = Toolkit("Kit", version="1.0.0", description="For tests.")
_go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
_held: set[str] = set()


@kit.tool
async def echo(value: str) -> str:
    """Gives back what it got."""
    return value


@kit.tool
async def hold(name: str) -> str:
    """Until it is let go."""
    _held.add(name)
    await _go[name].wait()
    return name


@kit.tool
async def is_held(name: str) -> bool:
    """Whether a hold of that name has begun."""
    return name in _held


@kit.tool
async def let_go(name: str) -> None:
    """Ends a hold."""
    _go[name].set()


@kit.tool(concurrency=1)
async def alone(name: str) -> str:
    """One at a time."""
    await asyncio.sleep(0.05)
    return name


@kit.tool
async def large(size: int) -> str:
    """A large answer."""
    return "x" * size
