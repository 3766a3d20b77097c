"""MCP's transports, and the one dispatcher behind them."""
