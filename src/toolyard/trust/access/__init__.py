"""Who sees and may call what: access rules, views of the catalogue, rules for workers.

May use the model and `trust`'s readers of tables; knows no credentials, store or wire.
"""
