"""How a user connects an account at a provider that a tool needs: the routes, the pages, and the parts behind them.

May use `http`, `pages` and settings. The flows themselves are in `trust/requirements`.
"""
