"""A person's browser."""

from ..server.accounts.test_browser import chromium, page

__all__ = ["chromium", "page"]
