"""`toolyard doctor`: an operator has everything looked at that a server needs."""

from typing import Annotated

import msgspec
import typer

from ...operator.doctor import Finding, examined
from ...server.settings.table import load_settings
from ...version import VERSION
from ..support.screen import pretty, say
from ..support.target import Json

WIDTH = 12


def doctor(
    store: Annotated[str | None, typer.Option(help="The ledger (sqlite:toolyard.db).")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
    json: Json = False,
) -> None:
    """Look at everything that a server needs.

    Settings, ledger, disk, rights, keys, clock, port, certificate and versions; while a server runs or not. It says
    what to do about what is not well, and changes nothing. The exit code is 0 where all is well, and 1 where something
    is not.
    """
    flags = {} if store is None else {"store": store}
    findings = examined(VERSION, lambda: load_settings(flags, config=config))
    is_well = all(finding.well for finding in findings)
    if json:
        say(pretty({"well": is_well, "checks": msgspec.to_builtins(findings)}))
    else:
        say("".join(map(_line, findings)))
        say("All is well\n" if is_well else "Not all is well\n")
    if not is_well:
        raise typer.Exit(1)


def _line(finding: Finding) -> str:
    said = f"{'ok ' if finding.well else 'NOT'}  {finding.check:<{WIDTH}} {finding.found}\n"
    return said if finding.well else f"{said}     {'':<{WIDTH}} -> {finding.do}\n"
