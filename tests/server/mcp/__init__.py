"""MCP through its real interface."""
