"""The page of settings, made from the table of settings.

python tests/docs/settings_page.py > docs/reference/settings.md
"""

import inspect
import os
import sys
from dataclasses import MISSING, Field
from typing import Any

from toolyard.cli.verbs.serve import serve
from toolyard.server.settings.readers import Wrong
from toolyard.server.settings.table import FILE, PREFIX, rows

NAMED = {"serve_processes": "--processes"}
"""Flags that are shorter than their settings."""
START = f"""\
# Settings

Name a setting in lower case in `{FILE}`, or in upper case after `{PREFIX}` in the environment: `port = 9000` is
`{PREFIX}PORT=9000`. Some have a flag of `toolyard serve`, too. A flag wins over the environment, the environment over
the file, the file over the default. `toolyard settings` prints this list; [Running a server](../guides/running.md)
shows it in use.

An unknown name or an impossible value ends the start with exit code 2 and one sentence that says where it stands.

This page is made from the table in `src/toolyard/server/settings/table.py`. A test compares the two.

`SIGHUP` has a running server [read its settings again](../guides/running.md#reading-the-settings-again), and follow
those that are marked so; the others change when it is started again.

| setting | meaning | value | default | flag | `SIGHUP` |
|---|---|---|---|---|---|
"""


def page() -> str:
    flags = set(inspect.signature(serve).parameters)
    return START + "".join(f"| {' | '.join(cells(row, flags))} |\n" for row in rows())


def cells(row: Field[Any], flags: set[str]) -> list[str]:
    flag = f"`{NAMED.get(row.name) or '--' + row.name.replace('_', '-')}`" if row.name in flags else ""
    return [
        f"`{row.name}`",
        row.metadata["meaning"] + (" A secret: no message shows it." if row.metadata["secret"] else ""),
        value_in_words(row),
        default_in_words(row),
        "the arguments" if row.name == "tools" else flag,
        "yes" if row.metadata["changes"] else "",
    ]


def value_in_words(row: Field[Any]) -> str:
    """What the table says to somebody who gives it something impossible."""
    try:
        row.metadata["read"](object())
    except Wrong as wrong:
        return str(wrong)
    raise AssertionError(f"{row.name} takes anything")


def default_in_words(row: Field[Any]) -> str:
    default = row.default_factory() if row.default_factory is not MISSING else row.default
    if row.name == "processes":
        return "the number of processors" if default == (os.cpu_count() or 1) else f"`{default}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "none" if default in (None, []) else f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
