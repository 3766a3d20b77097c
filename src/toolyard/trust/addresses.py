"""Addresses that secrets may be sent to, by a program or by a person at a page."""

from urllib.parse import urlsplit

from ..model.loopback import is_loopback


def is_safe(url: str) -> bool:
    """TLS, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
