"""The client: one set of flows over every wire, driven synchronously or asynchronously.

A flow is a generator of requests that does no I/O (`flows`, `mcp_flows`); `Client` and `AsyncClient` send what it asks
for through a transport. So each protocol's logic is written, and tested, once.
"""
