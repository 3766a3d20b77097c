"""The composition root: makes the parts, starts and stops them in order, and serves them over HTTP, over pipes, or
inside another application.

Imports all of the server, and nothing of the server imports it: the command line, `testing` and `lazy.py` do.
"""
