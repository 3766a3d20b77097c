"""LangChain's universal-tool-server with one tool. A second argument makes it that many tools."""

import sys
from collections.abc import Awaitable, Callable

import uvicorn
from universal_tool_server import Server

app = Server()


def make(name: str) -> Callable[[float, float], Awaitable[float]]:
    async def add(a: float, b: float) -> float:
        """Adds two numbers."""
        return a + b

    add.__name__ = name
    return add


app.add_tool(make("add"))
for number in range(int(sys.argv[2]) - 1 if len(sys.argv) > 2 else 0):
    app.add_tool(make(f"tool_{number:04}"))

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
