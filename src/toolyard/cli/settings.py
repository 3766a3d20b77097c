"""`toolyard settings`."""

import sys
from dataclasses import MISSING

from ..server.settings import PREFIX, rows


def settings() -> None:
    """List every setting: its name in toolyard.toml, its environment variable, default and meaning."""
    for row in rows():
        default = row.default if row.default is not MISSING else []
        shown = "none" if default in (None, []) else default
        sys.stdout.write(f"{row.name} = {shown}\n    {row.metadata['meaning']} ({PREFIX}{row.name.upper()})\n")
