"""Tools whose results are those of another MCP server: the test says which."""

import asyncio
from typing import Any

from msgspec import UNSET, Raw
from msgspec.json import encode

from toolyard import App, Embedded, ToolError, Toolkit
from toolyard.model.call import ResultExtra
from toolyard.model.run import RichResult, Run

far = Toolkit("Far", version="1.0.0", description="Elsewhere.")
near = Toolkit("Near", version="1.0.0", description="Somewhere else.")
own = Toolkit("Own", version="1.0.0", description="Here.")
app = App(far, near, own)


@app.around
async def as_another_server(run: Run, proceed: Any) -> Any:
    """As a gateway would: MCP's result, taken apart. Texts are `times` as long as the test sends them, and so many
    `steps` come before."""
    if run.tool.toolkit.name == "Own":
        return await proceed()
    for step in range(run.input.get("steps", 0)):
        run.progress(step + 1, None, None)
        await asyncio.sleep(0.001)
    result, times = dict(run.input["result"]), run.input.get("times", 1)
    for block in result["content"]:
        if block.get("type") == "text":
            block["text"] *= times
    content = Raw(encode(result["content"]))
    meta: Any = Raw(encode(result["_meta"])) if "_meta" in result else UNSET
    if result.get("isError"):
        error = ToolError("It broke", can_retry=False)
        error.extra = ResultExtra(content, meta=meta)
        raise error
    if "structuredContent" in result:
        return RichResult(result["structuredContent"], ResultExtra(content, meta=meta))
    return RichResult(content, ResultExtra(is_content=True, meta=meta))


@far.tool(idempotent=True)
async def give(result: dict[str, Any], times: int = 1, steps: int = 0) -> dict[str, Any]:
    """Has an output schema."""
    return result


@far.tool(idempotent=True)
async def tell(result: dict[str, Any], times: int = 1, steps: int = 0) -> Any:
    """Returns what it likes."""
    return result


@near.tool(name="Tell")
async def tell_near(result: dict[str, Any]) -> Any:
    """Returns what it likes, by another server."""
    return result


@own.tool
async def embed(uri: str, text: str) -> Embedded:
    """Is this server's own."""
    return Embedded(uri, text)
