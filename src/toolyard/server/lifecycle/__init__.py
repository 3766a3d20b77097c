"""The handlers of the lifecycle API: calls, requests, workers, sessions.

Calls that come in a session go through the intake; everything else reads or changes what is in the ledger already.
"""
