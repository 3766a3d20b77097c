"""The ledger: where calls, sessions, keys and sealed things are kept.

`contract.py` has the promises, `values.py` and `hints.py` what its users need beside it; trust and engine import
nothing else of this package. `sqlite/` and `postgres/` are the two stores, each with its SQL in `sql/`.
"""
