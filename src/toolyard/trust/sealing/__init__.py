"""Keys that seal, sign and recognise: the ring, the vault, fingerprints of calls.

The lowest folder of `trust`: everything else there may use it.
"""
