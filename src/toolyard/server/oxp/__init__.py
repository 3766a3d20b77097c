"""The handlers of OXP and OTC: list tools, call a tool."""
