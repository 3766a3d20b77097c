"""A server of the official SDK, as a peer: `python mcp_peer.py PORT`."""

import sys

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

peer: MCPServer[None] = MCPServer("peer")


class Point(BaseModel):
    x: int


@peer.tool()
def point(x: int) -> Point:
    """A point."""
    return Point(x=x)


@peer.tool(structured_output=False)
def text() -> str:
    """A text that looks like a number."""
    return "10"


@peer.tool(name="geo.locate", structured_output=False)
def locate(place: str) -> str:
    """A tool with a dot in its name."""
    return place.upper()


@peer.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no")


if __name__ == "__main__":
    peer.run("streamable-http", port=int(sys.argv[1]))
