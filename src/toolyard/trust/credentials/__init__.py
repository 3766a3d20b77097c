"""Who sends a request: API keys, HS256 and issuers' tokens, and when they end.

Turns headers into a `Caller`. Knows access rules, sealing and the model, and no HTTP server.
"""
