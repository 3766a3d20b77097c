"""How much and how often: rate limits, quotas, and who is answered late after wrong credentials.

Counts in memory and shares its counts through the store; knows no wire.
"""
