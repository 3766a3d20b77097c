"""Which calls wait for a person (`rules`), and the signed addresses and codes at which that person decides (`links`).

Decides from a tool, an input and a caller, and stores nothing: what becomes of the call is the engine's. Stands on the
patterns of `access` and the ring of `sealing`.
"""
