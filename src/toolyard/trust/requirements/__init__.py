"""Secrets and accounts that tools need, and how a person connects an account.

The flows of OAuth and sign-in without pages: those are the server's.
"""
