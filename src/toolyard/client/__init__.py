"""The client: one set of flows over every wire, driven synchronously or asynchronously."""
