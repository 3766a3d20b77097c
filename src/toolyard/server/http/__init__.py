"""HTTP itself: connections, requests, routes, admission, streams, and the fast path.

Knows settings and intake, and no feature.
"""
