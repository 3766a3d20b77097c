"""The console: what an operator, whoever runs the server, sees and does in a browser, at `/console`.

`table.py` lists the pages; a new one is a class and a line there. A page is shown to a browser that logged in with a
code of `toolyard console`, and to nobody else. May use the features, `pages`, `http` and settings.
"""
