"""The ledger in one SQLite file: one writer thread, batches, readers beside it.

Implements `store.contract`; only the composition root and tests name it.
"""
