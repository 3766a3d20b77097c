"""Tools for the child-process tests: loaded again by each child."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import date

from pydantic import BaseModel

from toolyard import App, Context, ToolError, Toolkit, secret

kit = Toolkit("Child", version="1.0.0")


class Day(BaseModel):
    day: date


@kit.tool(runs="process")
def pid() -> int:
    """Tells the process it runs in."""
    print("this must not disturb anything")  # noqa: T201
    return os.getpid()


@kit.tool(runs="process")
def close() -> None:
    """Raises what would close a coroutine."""
    raise GeneratorExit("secret")


@kit.tool(runs="process")
async def tomorrow(day: Day, ctx: Context) -> Day:
    """Takes and gives a model."""
    await asyncio.sleep(0)
    ctx.progress(1, 2, "half")
    ctx.log("on it", city="Paris")
    return Day(day=date.fromordinal(day.day.toordinal() + 1))


@kit.tool(runs="process", requires=secret("KEY"))
def reveal(ctx: Context) -> list[str | None]:
    """Sees the same call as a tool in the server does."""
    return [ctx.call_id, ctx.trace_id, ctx.user_id, ctx.caller.subject, ctx.secret("KEY"), ctx.resources["pool"]]


@kit.tool(runs="process")
def refuse() -> None:
    """Fails on purpose."""
    raise ToolError("No", developer_message="never", can_retry=True, retry_after_ms=7, additional_prompt_content="ask")


@kit.tool(runs="process")
def crash() -> None:
    """Raises."""
    raise RuntimeError("a secret text")


@kit.tool(runs="process")
def die() -> None:
    """Ends its process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


@kit.tool(runs="process", timeout=0.5)
def sleep(path: str) -> None:
    """Says who it is, and stays too long."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)


@kit.tool(runs="process")
def hold(path: str) -> None:
    """Runs until somebody writes to that pipe."""
    with open(path) as pipe:
        pipe.read()


async def lifespan() -> AsyncIterator[dict[str, str]]:
    yield {"pool": f"pool of {'a child' if 'toolyard.runners.child' in _main_module() else 'the server'}"}
    _note_the_end()


def _note_the_end() -> None:
    if "CLOSED" in os.environ:
        with open(os.environ["CLOSED"], "a") as file:
            file.write(f"{os.getpid()}\n")


def _main_module() -> str:
    import __main__

    return str(__main__.__spec__.name if __main__.__spec__ else "")


app = App(kit, lifespan=lifespan)
