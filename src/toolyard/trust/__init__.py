"""Who is calling, what they may do, and what a call needs before it may run.

Each folder answers one of these questions; the modules beside the folders read the settings' tables, for all of them.
The engine and the server ask; `trust` itself knows the model and the contract of the store, and no wire, page or route.
"""
