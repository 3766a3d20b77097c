"""`--upstream NAME=ADDRESS`, as several verbs have it: another server whose tools are served beside what the settings
name."""

import shlex
from typing import Annotated, Any

import typer

from ...model.errors import SetupError
from ...model.upstream import Upstream

UpstreamFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="NAME=ADDRESS|COMMAND",
        help="An MCP server whose tools to serve, too: Hub=https://tools.example.com/mcp, Files='npx -y some-server'.",
    ),
]


def upstream_tables(words: list[str] | None) -> list[dict[str, Any]]:
    """What the flags say, as tables of the setting. Raises SetupError."""
    return [_table(word) for word in words or ()]


def _table(word: str) -> dict[str, Any]:
    name, equals, place = word.partition("=")
    if not equals or not place.strip() or name.startswith(("http:", "https:")):
        raise SetupError(f"--upstream {name}: write NAME=ADDRESS or NAME='COMMAND WITH ARGUMENTS'")
    try:
        is_address = place.startswith(("http://", "https://"))
        table = {"name": name} | ({"mcp": place} if is_address else {"command": tuple(shlex.split(place))})
        Upstream(**table)  # here, so that the error names the flag
    except ValueError as error:
        raise SetupError(f"--upstream {name}: {error}") from None
    return table
