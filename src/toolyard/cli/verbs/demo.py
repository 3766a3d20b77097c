"""`toolyard demo`: shows a newcomer secrets, accounts, approvals and the audit log at work."""

from pathlib import Path
from typing import Annotated

import typer

from ...lazy import load


def demo(
    auto: Annotated[bool, typer.Option("--auto", help="Do the person's part, too: no browser is needed.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Run in this folder, new or empty, and leave it there afterwards."),
    ] = None,
) -> None:
    """Take a tour of secrets, accounts, approvals and auditing.

    It takes a minute, on this machine alone. It starts a server and an identity provider of its own on free ports, says
    what to do, and ends both.
    """
    raise typer.Exit(load("demo")(auto=auto, keep=keep))
