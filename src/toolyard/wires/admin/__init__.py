"""The operator's API under `/v1/admin`: what the operator's verbs and the server say to each other.

Pure, one module a subject, with the server's side and the client's in one file. Errors are the lifecycle API's.
"""
