"""Where a caller's verb sends its calls: to a server by its address, or to a file that is served in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ...client.client import DEFAULT_URL, Client
from ...lazy import load
from ...model.errors import SetupError
from ...model.run import Source

Server = Annotated[
    str, typer.Option(envvar="TOOLYARD_SERVER", help="The server's address; MCP is spoken where it ends in /mcp.")
]
Key = Annotated[str | None, typer.Option(envvar="TOOLYARD_KEY", help="An API key or token for the server.")]
Ca = Annotated[
    str | None,
    typer.Option(
        envvar="TOOLYARD_CA",
        metavar="FILE",
        help="The CA that signed the server's certificate, in PEM (SSL_CERT_FILE).",
    ),
]
File = Annotated[str | None, typer.Option(help="Call the tools of this file, in this process, without a server.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, whole.")]


def loaded(file: str | None) -> list[Source]:
    """The sources of a file, if one is named. Raises SetupError."""
    sources: list[Source] = [] if file is None else load("sources")([file])
    return sources


@contextmanager
def connect(
    server: str, key: str | None = None, sources: Sequence[Source] = (), ca: str | None = None
) -> Iterator[Client]:
    """A client of the server, or of `sources` where there are any. It retries nothing by itself: the verb does, and
    tells the person at the terminal first."""
    if sources:
        with load("testing").client(*sources, public_url=DEFAULT_URL) as client:
            yield client
        return
    with Client(address(server), key=key, retries=0, ca=ca) as client:
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
