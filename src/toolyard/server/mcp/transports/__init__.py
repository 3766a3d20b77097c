"""Ways in for MCP: streamable HTTP, its older form with sessions, stdio.

The highest folder of `server/mcp` below its assembly.
"""
