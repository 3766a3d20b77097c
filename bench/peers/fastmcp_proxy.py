"""FastMCP as a gateway: `create_proxy` before the server at the address that is the second argument."""

import sys

import uvicorn
from fastmcp.server import create_proxy

server = create_proxy(sys.argv[2], name="bench")

if __name__ == "__main__":
    app = server.http_app(path="/mcp", json_response=True)
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
