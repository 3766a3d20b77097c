"""The tamper-evident log: its entries, the chain of signed blocks that they are kept in, and how long they are kept.

Whatever admits, runs, decides or administers adds entries; `toolyard audit` and the operator's routes read and verify
them. Stands on `sealing` and the store's contract. `key_check`, which asks the chain and the vault whether the ring is
theirs, is here because the chain is what it asks first.
"""
