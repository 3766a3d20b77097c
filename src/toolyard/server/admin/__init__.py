"""The operator's operations and their routes, and the Unix socket they are served on.

May use features, `http` and settings.
"""
