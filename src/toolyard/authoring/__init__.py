"""How an author writes tools: a typed function becomes a `Tool`."""
