"""How people decide about calls that wait for approval: the API for callers who may, the page for whoever knows the
call's code, and the decisions, which are in the audit log whichever way they came.

May use `http`, `pages` and settings. Operators decide through `server/admin` and `server/console`.
"""
