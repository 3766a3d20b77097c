"""A worker: claims calls of its tools from a server, runs them here, and submits how they ended.

It only makes outbound HTTP requests, of the lifecycle API, and so works behind any firewall.
"""
