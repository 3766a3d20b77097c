"""Settings as data: one row gives the flag, the environment variable, the default and the documentation.

Knows nothing else of the server.
"""
