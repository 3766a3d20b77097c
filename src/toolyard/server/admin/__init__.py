"""What operators can do at `/v1/admin`: the table of operations, a module for each subject, and the Unix socket beside
the ledger on which a server is asked.

May use the features (`approvals`, `accounts`), `http` and settings. `operator/ledger_transport.py` serves the same
table without a server.
"""
