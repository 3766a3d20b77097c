"""What the protocol documents ask for, as data (`*.yaml`), and the one runner that asks a real server."""
