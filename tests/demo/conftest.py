"""A person's browser."""

from ..connections.test_browser import chromium, page

__all__ = ["chromium", "page"]
