"""FastMCP's client: `python fastmcp_client.py MODE NAME URL`, or `… MODE NAME COMMAND ARGUMENT…`, where that
is installed. It says that it is connected, and at the end what it saw, as JSON; what the tool NAME does meanwhile is up
to the test."""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found]
from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found]
from fastmcp.exceptions import ToolError  # type: ignore[import-not-found]


async def main(mode: str, name: str, target: str, *rest: str) -> dict[str, Any]:
    saw: dict[str, Any] = {"progress": []}
    started = asyncio.Event()

    async def asked(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return {"name": "Ada"}

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        saw["progress"].append(done)

    async def begun(done: float, total: float | None, message: str | None) -> None:
        started.set()

    transport = target if target.startswith("http") else StdioTransport(target, list(rest), env=dict(os.environ))
    async with Client(transport, mode=mode, elicitation_handler=asked) as client:
        sys.stdout.write("connected\n")
        sys.stdout.flush()
        saw["tools"] = len(await client.list_tools())
        saw["greeting"] = (await client.call_tool("greet", {"name": "Ada"})).content[0].text
        try:
            await client.call_tool("Kit_Fail", {})
        except ToolError:
            saw["failed"] = True
        saw["acted"] = (await client.call_tool("Play_Act", {"name": name}, progress_handler=progressed)).content[0].text
        going = asyncio.create_task(client.call_tool("Play_Act", {"name": name}, progress_handler=begun))
        await started.wait()
        going.cancel()
        saw["gone"] = isinstance((await asyncio.gather(going, return_exceptions=True))[0], asyncio.CancelledError)
        await client.list_tools()  # who closes at once says nothing
    return saw


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))) + "\n")
