"""`toolyard stdio`: a desktop client starts the tools of a file, and speaks MCP with them over standard streams."""

from typing import Annotated, Any

import typer

from ...lazy import load
from ...server.http.logs import set_up_logging
from ...server.mcp.transports.pipes import own_pipes
from ...server.settings.table import load_settings
from ..support.upstream_flag import UpstreamFlag, upstream_tables


def stdio(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|MODULE|PACKAGE]...",
            help="What to serve: tools.py, package.module, either with :name, an installed package, or mcp.json.",
        ),
    ] = None,
    upstream: UpstreamFlag = None,
    store: Annotated[str | None, typer.Option(help="The ledger (one of this user's own, in the state folder).")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error, on standard error.")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
) -> None:
    """Serve tools to the MCP client that starts this process.

    MCP is spoken over standard input and output, as desktop clients do; 'toolyard install' sets one up. Nothing but the
    protocol is written to standard output: what tools print goes to standard error.
    """
    pipes = own_pipes()
    given: dict[str, Any] = {"tools": targets or None, "store": store, "log_level": log_level}
    given |= {"upstreams": upstream_tables(upstream) or None}
    settings = load_settings({name: value for name, value in given.items() if value is not None}, config=config)
    set_up_logging(settings.log_level, settings.log_format)
    sources = load("sources")(settings.targets)
    load("stdio")(sources, settings, pipes)
