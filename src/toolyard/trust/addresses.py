"""Addresses that secrets may be sent to."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def is_safe(url: str) -> bool:
    """TLS, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts)))


def _is_loopback(parts: SplitResult) -> bool:
    try:
        return parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
