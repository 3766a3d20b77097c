"""FastMCP's client, whose call a person has to agree to: `python fastmcp_approved.py URL`, where that is installed. It
says `asked` once its person was sent to a page, and then what the call returned, as JSON."""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found]


async def main(url: str) -> None:
    async def asked(message: str, response_type: Any, params: Any, context: Any) -> Any:
        sys.stdout.write(json.dumps("asked") + "\n")
        sys.stdout.flush()
        return {}

    async with Client(url, mode="auto", elicitation_handler=asked) as client:
        answer = await client.call_tool("Pay_Refund", {"order": "7", "cents": 500})
        sys.stdout.write(json.dumps(answer.content[0].text) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
