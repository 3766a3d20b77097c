"""HTTP itself: connections, requests, routes, admission, streams, and the fast path through uvicorn.

Knows settings and intake, and no feature: handlers are given to it as rows of a route table, and it is given to all
that serve something. A request passes `uvicorn_protocol`, `fast_path` (or any ASGI server), `shell`, and a route's
handler.
"""
