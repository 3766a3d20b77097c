"""The server's own tools: each tells the world that it ran, and what it was given.

Some of them are what nobody should write, and somebody does: one that puts a secret, or what is no JSON, into its
arguments, one whose validator raises when it is asked again, one that says its secrets in every way it can.
"""

import logging
from typing import Annotated, Any

from msgspec import Raw
from msgspec.json import encode
from pydantic import AfterValidator

from toolyard import Context, ToolError, Toolkit, authorization, secret
from toolyard.model.call import ResultExtra
from toolyard.model.run import RichResult
from toolyard.model.run import Run as ToolRun

from .process_tools import kit as far
from .world import Run, World

GITHUB = "github"
HELD = "SMS_KEY"
INNER = "INNER_KEY"
_log = logging.getLogger("an author's")


def toolkits(world: World) -> list[Toolkit]:
    made = [_desk(world), _sms(world)]
    for kit in made:
        kit.host.around.append(_with_content)
    return [*made, far]


RICH = ("Desk.Note", "Desk.Again", "Sms.Send")
"""Those whose results have more than a value, as if another MCP server had given them."""


async def _with_content(run: ToolRun, proceed: Any) -> Any:
    """What was asked for, and every secret that the tool was given, beside the value or the error."""
    if run.tool.id not in RICH:
        return await proceed()
    text = f"{run.input['mark']} {' '.join(run.secrets.values())}"
    content = [
        {"type": "text", "text": text},
        {"type": "resource", "resource": {"uri": f"yard://{text}", "text": text}},
    ]
    extra = ResultExtra(Raw(encode(content)), meta=Raw(encode({"yard/about": {text: [text]}})))
    try:
        return RichResult(await proceed(), extra)
    except ToolError as error:
        error.extra = extra
        raise


def _value(run: Run) -> dict[str, str]:
    return {"run": run.id, "mark": run.mark}


async def _through(world: World, run: Run) -> dict[str, str]:
    """Waits until somebody lets it go on."""
    await world.gate(run.mark).wait()
    return _done(run)


def _done(run: Run) -> dict[str, str]:
    if run.ended == "":
        run.ended = "done"
    return _value(run)


def _desk(world: World) -> Toolkit:
    kit = Toolkit("Desk")

    def is_good(mark: str) -> str:
        if world.is_picky:
            raise RuntimeError("an author's validator that fails")
        return mark

    @kit.tool
    async def note(mark: str, details: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Answers at once."""
        return _done(world.ran("Desk.Note", ctx.caller, {"mark": mark, "details": details}))

    @kit.tool
    def look(mark: str, details: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """In a thread."""
        return _done(world.ran("Desk.Look", ctx.caller, {"mark": mark, "details": details}))

    @kit.tool
    async def wait(mark: str, flag: Any, ctx: Context) -> dict[str, Any]:
        """Takes as long as somebody likes."""
        return await _through(world, world.ran("Desk.Wait", ctx.caller, {"mark": mark, "flag": flag}))

    @kit.tool(idempotent=True)
    async def again(mark: str, flag: Any, ctx: Context) -> dict[str, Any]:
        """The same, and it may be run again."""
        return await _through(world, world.ran("Desk.Again", ctx.caller, {"mark": mark, "flag": flag}))

    @kit.tool(concurrency=1)
    async def single(mark: str, flag: Any, ctx: Context) -> dict[str, Any]:
        """The same, one at a time."""
        return await _through(world, world.ran("Desk.Single", ctx.caller, {"mark": mark, "flag": flag}))

    @kit.tool
    async def retry(mark: str, ctx: Context) -> dict[str, Any]:
        """Fails at first, and says that one may try again."""
        run = world.ran("Desk.Retry", ctx.caller, {"mark": mark})
        if sum(each.mark == mark for each in world.runs) == 1:
            run.ended = "retry"
            raise ToolError("not yet", can_retry=True, retry_after_ms=1)
        return _done(run)

    @kit.tool
    async def picky(mark: Annotated[str, AfterValidator(is_good)], ctx: Context) -> dict[str, Any]:
        """Has a validator of its author's."""
        return _done(world.ran("Desk.Picky", ctx.caller, {"mark": mark}))

    @kit.tool(approval="always")
    async def pay(mark: str, ctx: Context) -> dict[str, Any]:
        """A person has to agree to it."""
        return _done(world.ran("Desk.Pay", ctx.caller, {"mark": mark}))

    @kit.tool(requires=authorization(GITHUB))
    async def read(mark: str, ctx: Context) -> dict[str, Any]:
        """With a user's account; and it says the token aloud."""
        run = world.ran("Desk.Read", ctx.caller, {"mark": mark})
        _log.warning("the token is %s", ctx.token(GITHUB))
        return {**_done(run), "said": f"Bearer {ctx.token(GITHUB)}"}

    @kit.tool
    async def ask(mark: str, ctx: Context) -> dict[str, Any]:
        """Asks a person."""
        run = world.ran("Desk.Ask", ctx.caller, {"mark": mark})
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await ctx.ask(f"{mark}: who?", form, name="who")
        return {**_done(run), "answer": answer["name"]}

    @kit.tool(requires=secret(INNER))
    async def mutate(mark: str, how: str, request: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Changes its arguments, deep inside."""
        run = world.ran("Desk.Mutate", ctx.caller, {"mark": mark, "how": how, "request": request})
        if how == "secret":
            request["headers"]["authorization"] = ctx.secret(INNER)
        elif how == "object":
            request["headers"]["authorization"] = object()
        elif how == "cycle":
            request["headers"]["itself"] = request
        elif how == "empty":
            request.clear()
        return _done(run)

    return kit


def _sms(world: World) -> Toolkit:
    kit = Toolkit("Sms")

    @kit.tool(requires=secret(HELD))
    async def send(mark: str, how: str, ctx: Context) -> dict[str, Any]:
        """Says its secret in every way it can."""
        run, value = world.ran("Sms.Send", ctx.caller, {"mark": mark, "how": how}), ctx.secret(HELD)
        ctx.log(f"it is {value}", "warning", field=value)
        ctx.progress(1, 2, value)
        _log.error("it is %s", value)
        if how == "fail":
            run.ended = "done"
            raise ToolError(value, developer_message=value, additional_prompt_content=value, can_retry=False)
        if how == "crash":
            run.ended = "done"
            raise RuntimeError(value)
        return {**_done(run), value: [value]}

    return kit
