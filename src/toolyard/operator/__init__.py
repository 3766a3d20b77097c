"""What operators' verbs do beyond sending a request: reach a ledger, through its server or by opening it; explain who
may call a tool; lock tools; replace a lost key.

Used by `cli` and `demo`. May use `server`, `client` and `wires`.
"""
