"""What every page has (its frame, its forms) and the server's own pages: the front page and the documentation.

Pages are plain HTML without scripts, and whatever comes from outside is escaped. May use `http`, `intake` and settings.
"""
