"""Who sees and may call what: identities, access rules, views of the catalogue, and rules for workers.

Imports the model and `trust`'s reader of tables, and knows no store or wire. `credentials` finds out whom a request is
from; limits and approvals are about callers by the patterns that are defined here.
"""
