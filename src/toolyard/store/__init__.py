"""Where calls are kept. `contract.py` has the promises; each store is one file with its SQL beside it."""
