"""Reaches a ledger for whoever runs it: through its server, or by opening it.

Used by the command line's verbs. May use server, client and wires.
"""
