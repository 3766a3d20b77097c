"""The tool-call lifecycle API under `/v1`: calls, requests, workers, sessions, approvals.

Pure, in both directions.
"""
