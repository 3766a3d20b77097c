"""`toolyard settings`: an operator sees every setting, its default and its meaning."""

from dataclasses import MISSING

from ...server.settings.table import PREFIX, rows
from ..support.screen import say


def settings() -> None:
    """List every setting, with its default and meaning.

    Each is shown by its name in toolyard.toml and by its environment variable. A flag of 'toolyard serve' wins over the
    environment, the environment over the file.
    """
    for row in rows():
        default = row.default if row.default is not MISSING else []
        shown = "none" if default in (None, []) else default
        say(f"{row.name} = {shown}\n    {row.metadata['meaning']} ({PREFIX}{row.name.upper()})\n")
