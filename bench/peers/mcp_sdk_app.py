"""The official SDK with one tool, answering with JSON. A second argument makes it that many tools."""

import sys
from collections.abc import Callable

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench", log_level="WARNING")


def make() -> Callable[..., object]:
    async def add(a: float, b: float) -> float:
        """Adds two numbers."""
        return a + b

    return add


server.add_tool(make(), name="add")
for number in range(int(sys.argv[2]) - 1 if len(sys.argv) > 2 else 0):
    server.add_tool(make(), name=f"tool{number:04}")

if __name__ == "__main__":
    app = server.streamable_http_app(json_response=True)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
