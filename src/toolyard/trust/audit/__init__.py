"""The tamper-evident log: entries, their chain, how long they are kept.

Written by the server's intake and admin operations, read by `toolyard audit`.
"""
