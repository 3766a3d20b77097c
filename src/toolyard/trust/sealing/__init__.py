"""Keys that seal, sign and recognise: the ring, the vault of sealed things, and fingerprints of calls.

Imports nothing else of `trust`. Audit, approvals and requirements stand on it, and so does whatever of the engine and
the server has to recognise something that it gave out.
"""
