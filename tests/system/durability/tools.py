"""Tools that leave a mark each time they run, and then wait to be killed."""

import asyncio
import os
import time

from toolyard import Context, Toolkit, secret

kit = Toolkit("Marks", version="1.0.0")


def mark(text: str) -> int:
    """Appends a line, durably, and tells how many there are now."""
    with open(os.environ["MARKS"], "a+") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return len(file.readlines())


def may_go() -> bool:
    return os.path.exists(os.environ["MARKS"] + ".go")


@kit.tool
def once(text: str) -> int:
    """Leaves a mark, and stays."""
    count = mark(text)
    time.sleep(600)
    return count


@kit.tool(idempotent=True, requires=secret("KEY"))
def again(text: str, ctx: Context) -> list[str]:
    """Leaves a mark, and stays the first time."""
    count = mark(text)
    if count == 1:
        time.sleep(600)
    return [text, ctx.secret("KEY")]


@kit.tool(idempotent=True)
def poison(text: str) -> None:
    """Leaves a mark, and ends the server."""
    mark(text)
    os.kill(os.getpid(), 9)


@kit.tool
async def quick(text: str) -> int:
    """Leaves a mark."""
    return mark(text)


@kit.tool
async def patient(text: str, ctx: Context) -> str:
    """Leaves a mark, tells how far it is, and goes on until somebody makes the file `go`."""
    mark(text)
    ctx.progress(1, 2, "half way")
    try:
        while not may_go():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        mark("stopped")
        raise
    return text


@kit.tool
def stubborn(text: str, ctx: Context) -> str:
    """Leaves a mark, and goes on in its thread until it is told that nobody waits."""
    mark(text)
    while not ctx.cancelled:
        time.sleep(0.01)
    mark("stopped")
    return text


@kit.tool(runs="process")
def heavy(text: str) -> str:
    """Leaves a mark with its process id, and stays."""
    mark(str(os.getpid()))
    time.sleep(600)
    return text


@kit.tool(idempotent=True)
async def harmless(text: str) -> str:
    """Leaves a mark, and stays the first time."""
    if mark(text) == 1:
        await asyncio.sleep(600)
    return text


@kit.tool(on_disconnect="continue")
async def unmoved(text: str) -> str:
    """Leaves a mark and, once somebody makes the file `go`, another."""
    return await patient_mark(text)


@kit.tool(on_disconnect="cancel")
async def attached(text: str) -> str:
    """The same, but goes with its client."""
    return await patient_mark(text)


async def patient_mark(text: str) -> str:
    mark(text)
    try:
        while not may_go():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        mark("stopped")
        raise
    mark("done")
    return text


@kit.tool(concurrency=1)
async def single(text: str) -> str:
    """One at a time."""
    return await patient_mark(text)
