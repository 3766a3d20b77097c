"""How much and how often: limits on calls, quotas on what stays behind, and callers and addresses that are slowed down.

Decides in memory, and shares its counts with other nodes through the store. Knows callers by the patterns of `access`,
and no wire: the engine asks it about calls, the server about credentials, connections and streams.
"""
