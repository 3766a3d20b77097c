"""Who sends a request: API keys, tokens of the shared secret and of issuers, and what ends when they do.

Turns headers into a `Caller`, by the identities and rules of `access`. Reads API keys from the store and fetches the
keys of issuers by itself; knows no HTTP server.
"""
