"""The tools of the servers under test. Those of `Play` come to the test's stage and do what they are told there."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from toolyard import App, Audio, Context, Embedded, Hidden, Image, ResourceLink, ToolError, Toolkit, authorization

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
WAV = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
kit = Toolkit("Kit", version="2.0.0", description="Results of every kind.")
old = Toolkit("Kit", version="1.0.0")
play = Toolkit("Play", version="1.0.0", description="What the test directs.")
app = App(kit, old, play)


class Point(BaseModel):
    x: int
    y: int = 0


# --- results -------------------------------------------------------------------------------------


@kit.tool(wire_name="greet", title="Greeter", icons=["https://example.com/greet.png"], read_only=True)
async def greet(name: Annotated[str, Field(min_length=1, max_length=10)]) -> str:
    """Greets."""
    return f"Hello, {name}!"


@old.tool(name="Greet", wire_name="greet")
async def old_greet(name: str) -> str:
    """Greets as it used to."""
    return f"Good day, {name}."


@kit.tool
async def plain() -> None:
    """Takes nothing and returns nothing."""


@kit.tool
async def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@kit.tool
async def point(x: int) -> Point:
    """Returns an object."""
    return Point(x=x)


@kit.tool
async def numbers() -> list[int]:
    """Returns a list."""
    return [1, 2, 3]


@kit.tool
async def image() -> Image:
    """Returns a picture."""
    return Image(PNG, "image/png", annotations={"audience": ["user"], "priority": 0.5})


@kit.tool
async def audio() -> Audio:
    """Returns a sound."""
    return Audio(WAV, "audio/wav")


@kit.tool
async def link() -> ResourceLink:
    """Returns a link."""
    return ResourceLink("https://example.com/report.pdf", "report", mime_type="application/pdf")


@kit.tool
async def embedded() -> Embedded:
    """Returns a resource."""
    return Embedded("test://embedded", text="inside", mime_type="text/plain")


@kit.tool
async def letter(text: str) -> Embedded:
    """Returns a resource for one's own eyes."""
    return Embedded("test://letter", text=text)


@kit.tool
async def mixed() -> list[str | Image | ResourceLink | Embedded]:
    """Returns some of everything."""
    return ["first", await image(), await link(), Embedded("test://bytes", data=b"\x00\x01")]


@kit.tool
async def secretive(text: str, token: Annotated[str, Hidden]) -> str:
    """Has a parameter that no model fills in."""
    return f"{text} {token}"


@kit.tool
async def whole_secret(token: Annotated[str, Hidden] = "none") -> str:
    """Has no other."""
    return token


@kit.tool
async def fail() -> None:
    """Fails."""
    raise ToolError(
        "It is closed", developer_message="on Sundays", can_retry=True, retry_after_ms=7,
        additional_prompt_content="Try Monday.",
    )  # fmt: skip


@kit.tool
async def crash() -> None:
    """Fails by mistake."""
    raise RuntimeError("the password is hunter2")


@kit.tool
def close_plain() -> None:
    """Raises what would close a coroutine."""
    raise GeneratorExit


@kit.tool
async def close_async() -> None:
    """The same, on the loop."""
    await asyncio.sleep(0)
    raise GeneratorExit


@kit.tool(requires=authorization("github"))
async def authorized() -> str:
    """Needs a person's authorization."""
    return "in"


@kit.tool
def noisy(text: str) -> str:
    """Prints, and so does a process that it starts."""
    print(f"printed {text}")  # noqa: T201
    os.write(1, b"written\n")
    subprocess.run(["echo", "child"], check=True)
    return text


@kit.tool
def reads(how: Literal["child", "input", "line", "close"]) -> str:
    """Reads the input that its process was started with, or has another process read it."""
    if how == "child":
        return subprocess.run(["head", "-c", "60"], capture_output=True, check=True).stdout.decode()
    if how == "close":
        os.close(0)
        return ""
    if how == "line":
        return sys.stdin.readline()
    try:
        return input()
    except EOFError:
        return ""


@kit.tool
async def large(size: int) -> str:
    """Returns more than a pipe holds."""
    return "x" * size


@kit.tool
def shuts() -> str:
    """Closes the output and the errors."""
    sys.stdout.close()
    sys.stderr.close()
    return "shut"


@kit.tool
async def holds_on(how: Literal["waits", "deaf", "loop", "executor"], ctx: Context) -> str:
    """Never ends: it waits, hears nothing of its end, holds the loop up, or waits for a thread."""
    ctx.progress(1)
    if how == "loop":
        threading.Event().wait()
    if how == "executor":
        await asyncio.to_thread(threading.Event().wait, 60)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if how != "deaf":
                raise


@kit.tool
def holds_a_thread(ctx: Context) -> str:
    """Never ends, in a thread."""
    ctx.progress(1)
    threading.Event().wait()
    return "never"


@kit.tool(runs="process")
def steps_elsewhere(ctx: Context) -> str:
    """Says from another process how far it is."""
    return steps(ctx)


@kit.tool
def steps(ctx: Context) -> str:
    """Says from a thread how far it is."""
    for done in range(1, 4):
        ctx.progress(done, 3)
        ctx.log(f"step {done}")
    return "done"


@kit.tool
def tells_oddly(ctx: Context) -> str:
    """Says what is no number, and what is no text."""
    nan, inf, name = float("nan"), float("inf"), "bad\udcff.txt"
    ctx.progress(nan, 3)
    ctx.progress(1, inf)
    ctx.progress(inf, 3)
    ctx.progress(2, nan)
    ctx.progress(3, 3, name)
    ctx.log(f"file {name}", name=name, path=Path(name))
    return "done"


@kit.tool(runs="process")
def tells_oddly_elsewhere(ctx: Context) -> str:
    """The same, from another process."""
    return tells_oddly(ctx)


@kit.tool
async def early(ctx: Context) -> str:
    """Says how far it is before it waits for anything."""
    ctx.progress(1, 2)
    await asyncio.sleep(0.2)
    ctx.progress(2, 2)
    return "done"


@kit.tool(concurrency=1)
async def early_in_line(ctx: Context) -> str:
    """The same, one after another."""
    return await early(ctx)


@kit.tool
async def flood(count: int, ctx: Context) -> str:
    """Says more than anybody can read."""
    for done in range(count):
        ctx.progress(done + 1)
    return "done"


@kit.tool
async def ledger() -> str:
    """Where this process keeps its calls."""
    return ",".join(sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_db(fd)))


def _is_db(fd: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").endswith(".db")
    except OSError:
        return False


# --- what the test directs -----------------------------------------------------------------------


class Actor:
    """On the stage."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ctx: Context) -> None:
        self._reader, self._writer, self._ctx = reader, writer, ctx
        self._acts: dict[str, Callable[..., Any]] = {
            "progress": ctx.progress, "log": ctx.log, "ask": self._ask, "ask_url": self._ask_url,
            "sample": self._sample, "roots": self._roots, "together": self._together,
        }  # fmt: skip

    def say(self, said: Any) -> None:
        self._writer.write(json.dumps(said).encode() + b"\n")

    async def act(self) -> str:
        while line := await self._reader.readline():
            what, *told = json.loads(line)
            if what == "return":
                return str(told[0])
            if what == "fail":
                raise ToolError(told[0], can_retry=False)
            done = self._acts[what](*told)
            try:
                self.say(await done if asyncio.iscoroutine(done) else "did")
            except ToolError as error:
                self.say({"refused": error.message})
                raise
        raise ToolError("the test has left")

    async def _ask(self, name: str) -> Any:
        return (await self._ctx.ask(f"Who is {name}?", NAME, name=name))["name"]

    async def _ask_url(self, name: str) -> Any:
        return await self._ctx.ask_url("Go there", "https://example.com/there", name=name)

    async def _sample(self, name: str) -> Any:
        return await self._ctx.sample("What?", max_tokens=10, name=name)

    async def _roots(self, name: str) -> Any:
        return await self._ctx.roots(name=name)

    async def _together(self, *names: str) -> Any:
        return await asyncio.gather(*(self._ask(name) for name in names))


async def acted(name: str, ctx: Context) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["STAGE"]))
    actor = Actor(reader, writer, ctx)
    actor.say([name, os.getpid()])
    try:
        return await actor.act()
    except asyncio.CancelledError:
        actor.say("stopped")
        raise
    finally:
        writer.close()


@play.tool
async def act(name: str, ctx: Context) -> str:
    """Does what it is told."""
    return await acted(name, ctx)


@play.tool(on_lost="rerun")
async def again(name: str, ctx: Context) -> str:
    """The same, and may be run again."""
    return await acted(name, ctx)


@play.tool(task="preferred", on_lost="rerun")
async def preferred(name: str, ctx: Context) -> str:
    """The same, best as a task."""
    return await acted(name, ctx)


@play.tool(task="required")
async def required(name: str, ctx: Context) -> str:
    """The same, only as a task."""
    return await acted(name, ctx)


@play.tool(task="forbidden")
async def forbidden(name: str, ctx: Context) -> str:
    """The same, never as a task."""
    return await acted(name, ctx)


@play.tool(asks=("sampling",))
async def model(name: str, ctx: Context) -> str:
    """The same, with the client's model."""
    return await acted(name, ctx)


@play.tool(on_disconnect="continue")
async def unmoved(name: str, ctx: Context) -> str:
    """The same, with or without its client."""
    return await acted(name, ctx)
