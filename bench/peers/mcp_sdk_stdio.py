"""The official SDK's server of the older era with one tool, over pipes."""

from mcp.server.fastmcp import FastMCP

server = FastMCP("bench")


@server.tool()
async def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


if __name__ == "__main__":
    server.run("stdio")
