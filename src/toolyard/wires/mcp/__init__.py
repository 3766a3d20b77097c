"""MCP, every revision from 2025-03-26 to 2026-07-28: pure functions, both directions."""
