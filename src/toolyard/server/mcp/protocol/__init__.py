"""What MCP's revisions and peers are: eras, sessions, event ids, request state, refusals.

The lowest folder of `server/mcp`.
"""
