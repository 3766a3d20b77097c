"""Tools for workers. Most of them come to the test's stage, and do what they are told there."""

import asyncio
import datetime
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

from pydantic import BaseModel, field_validator

from toolyard import App, Context, Depends, ToolError, Toolkit, authorization, secret, user_id

kit = Toolkit("Stage", version="1.0.0", description="For tests.")


@contextmanager
def on_stage(name: str) -> Iterator[TextIO]:
    with socket.create_connection(("127.0.0.1", int(os.environ["STAGE"]))) as link, link.makefile("rw") as file:
        file.write(f"{name} {os.getpid()}\n")
        file.flush()
        yield file


def meet(name: str) -> str:
    """What the test says."""
    with on_stage(name) as file:
        return file.readline().strip()


@kit.tool
async def add(a: float, b: float) -> float:
    """Adds two numbers together."""
    return a + b


@kit.tool(idempotent=True)
def again(name: str) -> str:
    """May be run again."""
    return meet(name)


@kit.tool
def once(name: str) -> str:
    """Must not be run twice."""
    return meet(name)


@kit.tool(concurrency=1)
def alone(name: str) -> str:
    """Runs by itself."""
    return meet(name)


@kit.tool
async def block(name: str) -> str:
    """Keeps the event loop to itself."""
    return meet(name)


@kit.tool
def look(name: str, ctx: Context) -> None:
    """Looks whether it was cancelled."""
    with on_stage(name) as file:
        while not ctx.cancelled:
            time.sleep(0.01)
        file.write("saw it\n")


@kit.tool
async def stare(name: str, ctx: Context) -> None:
    """Looks, too, and lets nobody else look."""
    look(name, ctx)


@kit.tool
async def feel(name: str) -> None:
    """Is cancelled where it waits."""
    with on_stage(name) as file:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            file.write("felt it\n")
            raise


@kit.tool(runs="process")
def die(name: str) -> str:
    """Is killed with its process."""
    return meet(name)


@kit.tool
def far(name: str, ctx: Context) -> str:
    """Says how far it is."""
    ctx.progress(2, 3, "soon")
    return meet(name)


@kit.tool(timeout=0.05)
async def slow() -> None:
    """Takes too long."""
    await asyncio.Event().wait()


@kit.tool
def fail() -> None:
    """Fails on purpose."""
    raise ToolError(
        "It is closed", developer_message="on Sundays", can_retry=True, retry_after_ms=7,
        additional_prompt_content="try Monday",
    )  # fmt: skip


@kit.tool
def crash() -> None:
    """Fails by mistake."""
    raise RuntimeError("the password is hunter2")


@kit.tool
def lie() -> int:
    """Does not return what it says."""
    return "seven"  # type: ignore[return-value]


@kit.tool
def endless() -> dict[str, Any]:
    """Returns a number that is none."""
    return {"all": float("inf")}


@kit.tool
def long_text(size: int) -> str:
    """Returns a text of a size."""
    return "x" * size


class Day(BaseModel):
    date: datetime.date

    @field_validator("date")
    @classmethod
    def _is_a_workday(cls, date: datetime.date) -> datetime.date:
        if date.weekday() > 4:
            raise ValueError("Must be a workday")
        return date


@kit.tool
def after(day: Day, days: int = 1) -> Day:
    """The day some days later."""
    return Day.model_construct(date=day.date + datetime.timedelta(days))


@kit.tool(requires=[secret("KEY"), authorization("google"), user_id])
def needs(ctx: Context) -> list[Any]:
    """Shows what its context holds."""
    given = [ctx.secret("KEY"), ctx.token("google"), ctx.user_id, ctx.call_id, ctx.resources["tried"]]
    return [*given, ctx.caller.subject, ctx.trace_id]


async def get_tried(resources: dict[str, int]) -> AsyncIterator[int]:
    yield resources["tried"]
    resources["closed"] = resources.get("closed", 0) + 1


@kit.tool
def depends(tried: Annotated[int, Depends(get_tried)], ctx: Context[dict[str, int]]) -> list[int]:
    """Is given what the lifespan of the worker made, in a thread and from the loop."""
    return [tried, ctx.resources.get("closed", 0)]


async def lifespan() -> AsyncIterator[dict[str, int]]:
    yield {"tried": 0}


app = App(kit, lifespan=lifespan)


@app.around
async def count(run: Any, proceed: Any) -> Any:
    run.resources["tried"] += 1
    return await proceed()
