"""The ledger in PostgreSQL, shared by many nodes: leases, notifications, row locks.

Implements `store.contract`; loaded late, and named by `lazy.py` alone.
"""
