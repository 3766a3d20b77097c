"""What tools need besides input: secrets and users' accounts that are kept for them, and how a person connects an
account.

The flows of OAuth and of signing in, without pages, which are `server/accounts`. Stands on all other folders of `trust`
but limits and audit: the vault keeps what is sealed, `credentials` verifies who signed in.
"""
