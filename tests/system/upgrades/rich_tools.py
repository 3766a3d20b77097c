"""A tool whose results have content beside their value, as those of another MCP server have."""

import os
from typing import Any

from msgspec import Raw
from msgspec.json import encode

from toolyard import App, ToolError, Toolkit
from toolyard.model.call import ResultExtra
from toolyard.model.run import RichResult, Run

rich = Toolkit("Rich", version="1.0.0")
app = App(rich)
PROGRAM = os.environ["YARD_PROGRAM"]


@app.around
async def as_another_server(run: Run, proceed: Any) -> Any:
    content = Raw(encode([{"type": "text", "text": "x" * run.input["times"]}]))
    extra = ResultExtra(content, meta=Raw(encode({"program": PROGRAM})))
    if run.input["times"] == 0:
        error = ToolError(f"it failed {PROGRAM} the upgrade")
        error.extra = extra
        raise error
    return RichResult({"by": PROGRAM}, extra)


@rich.tool
async def give(times: int) -> dict[str, Any]:
    """Gives a text that is so long, beside a value."""
    return {}
