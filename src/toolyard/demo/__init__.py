"""`toolyard demo`: a server, an OpenID provider of its own, and five steps that a person goes through with them.

Everything is real but the people: `toolyard serve` runs in a process of its own, and what is shown is what it answers.
"""
