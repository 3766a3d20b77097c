"""`toolyard list`."""

import sys
from typing import Annotated

import msgspec
import typer

from ..client.client import DEFAULT_URL
from ..client.confirming import reference_of
from .failing import told
from .target import File, Json, Key, Server, connect


def list_tools(
    server: Server = DEFAULT_URL,
    key: Key = None,
    file: File = None,
    json: Json = False,
    versions: Annotated[bool, typer.Option("--all", help="Every version, not only the newest.")] = False,
) -> None:
    """List the tools of a server or file."""
    with connect(server, key, file) as client, told():
        tools = client.list(all_versions=versions)
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(tools), indent=2).decode() + "\n")
        return
    width = max((len(reference_of(tool)) for tool in tools), default=0)
    for tool in tools:
        summary = (tool.get("description", "").splitlines() or [""])[0]
        sys.stdout.write(f"{reference_of(tool):<{width}}  {summary}".rstrip() + "\n")
