"""MCP's methods, a module each: `tools/call`, `tools/list`, tasks, resources, subscriptions."""
