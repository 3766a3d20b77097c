"""A worker: claims calls of its tools from a server, runs them here, and submits how they ended. Outbound HTTP only."""
