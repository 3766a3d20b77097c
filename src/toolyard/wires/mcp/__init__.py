"""MCP, every revision from 2025-03-26 to 2026-07-28: pure functions, in both directions.

The modules called `client_…` are a client's side; the others are a server's, and what both share. "The newer era" is
2026-07-28, which has no handshake and no sessions; "the older era" is all revisions before it.
"""
