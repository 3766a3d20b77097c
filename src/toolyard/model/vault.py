"""What is kept sealed: a user's tokens at a provider, a secret that a tool needs."""

from msgspec import Struct


class Sealed(Struct, frozen=True):
    """`data` only the ring of keys can open; `about` is JSON that may be shown to whoever runs the server."""

    kind: str
    tenant: str
    owner: str
    """Whose it is within the tenant; nobody's in particular where it is empty."""
    name: str
    data: bytes
    about: bytes = b"{}"
    version: int = 0
    """Of what is stored. Each change has the next."""
    changed: float = 0.0
