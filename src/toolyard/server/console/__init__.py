"""The console: what whoever runs the server sees and does in a browser, at `/console`.

`table.py` has its pages; a new one is a class with its rows there. Each is shown to a browser that came in with a code
of `toolyard console`, and to nobody else.
"""
