"""How an author writes tools: a typed function becomes a `model.tool.Tool`.

`toolkit`, `app` and `context` are what authors use; the other modules make schemas, arguments and results from types.
Types are pydantic's matter here; the engine and the wires see nothing but plain JSON Schemas and the protocol `Code`.
"""
