"""Which calls wait for a person, and the signed links and codes by which that person is asked.

Decides from a tool, an input and a caller; what becomes of the call is the engine's.
"""
