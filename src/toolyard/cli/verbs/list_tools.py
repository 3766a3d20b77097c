"""`toolyard list`: a caller sees which tools a server has, or an author those of a file."""

from typing import Annotated

import typer

from ...client.client import DEFAULT_URL
from ...client.confirm import reference_of
from ...text.hidden import in_one_line
from ..support.screen import complaints, pretty, say
from ..support.target import Ca, File, Json, Key, Server, connect, loaded


def list_tools(
    server: Server = DEFAULT_URL,
    key: Key = None,
    ca: Ca = None,
    file: File = None,
    json: Json = False,
    versions: Annotated[bool, typer.Option("--all", help="Every version, not only the newest.")] = False,
) -> None:
    """List the tools of a server or file."""
    with connect(server, key, loaded(file), ca) as client, complaints():
        tools = client.list(all_versions=versions)
    if json:
        say(pretty(tools))
        return
    names = [in_one_line(reference_of(tool)) for tool in tools]
    width = max(map(len, names), default=0)
    for name, tool in zip(names, tools, strict=True):
        summary = (tool.get("description", "").splitlines() or [""])[0]
        say(f"{name:<{width}}  {summary}".rstrip() + "\n")
