"""The ledger in one SQLite file: one thread reads and writes it, and commits for many at once.

Implements `store.contract`; only the composition root and tests name it.
"""
