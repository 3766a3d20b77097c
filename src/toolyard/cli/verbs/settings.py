"""`toolyard settings`: an operator sees every setting, its default and its meaning."""

from dataclasses import MISSING

from ...server.settings.table import PREFIX, rows
from ..support.screen import say


def settings() -> None:
    """List every setting: its name in toolyard.toml, its environment variable, default and meaning."""
    for row in rows():
        default = row.default if row.default is not MISSING else []
        shown = "none" if default in (None, []) else default
        say(f"{row.name} = {shown}\n    {row.metadata['meaning']} ({PREFIX}{row.name.upper()})\n")
