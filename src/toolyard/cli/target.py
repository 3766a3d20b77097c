"""Where a verb's calls go: a server by its address, or a file in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ..client.client import DEFAULT_URL, Client
from ..doors import open_door
from ..model.errors import SetupError

Server = Annotated[
    str, typer.Option(envvar="TOOLYARD_SERVER", help="The server's address; MCP is spoken where it ends in /mcp.")
]
Key = Annotated[str | None, typer.Option(envvar="TOOLYARD_KEY", help="An API key or token for the server.")]
File = Annotated[str | None, typer.Option(help="Call the tools of this file, in this process, without a server.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, whole.")]


@contextmanager
def connect(server: str = DEFAULT_URL, key: str | None = None, file: str | None = None) -> Iterator[Client]:
    """A client of either."""
    if file is not None:
        with open_door("testing").client(*open_door("sources")([file]), public_url=DEFAULT_URL) as client:
            yield client
        return
    with Client(address(server), key=key) as client:
        yield client


def address(server: str, option: str = "--server") -> str:
    """The server's address, without a slash at its end."""
    if not server.startswith(("http://", "https://")) or not _has_host(server):
        raise SetupError(f"{option} must be an address such as {DEFAULT_URL}, got {server!r}")
    return server.rstrip("/")


def _has_host(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
