"""The composition root: makes the parts, starts and stops them in order, serves them.

Imports all of the server; only the command line, `testing` and `lazy.py` name it.
"""
