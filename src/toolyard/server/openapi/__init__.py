"""The OpenAPI document: what it says of each route, and the shapes of requests and replies, as types.

Loaded when somebody asks for the document, and imported by nobody but through `lazy.py`. Knows the route table of
`http`; handlers do not know it. Docstrings of shapes are descriptions in the document: they are for whoever reads the
API.
"""
