"""The protocols that toolyard speaks, as pure functions in both directions: bytes in, values out, and back.

Nothing here awaits, opens a file or a socket, or knows the engine; the server's shell and the client's transports do
the I/O. Each protocol has a package; the modules beside them are what several share.
"""
