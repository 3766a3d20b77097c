"""OXP 1.0, OTC 1.0 and the OTC draft: one family, negotiated per request.

Pure: decodes requests and encodes replies, for the server and for the client.
"""
