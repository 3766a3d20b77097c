"""The tool-call lifecycle API under `/v1`: calls, requests, workers, sessions, approvals.

Pure, in both directions: `worker_client` is a worker's side of `requests` and `worker_tools`; the other modules have
both sides in one file.
"""
