"""The command line, `toolyard`.

`command_line` runs the verb that is asked for; `verbs/` has the verbs, `support/` what several of them share, and
`install/` the verb that edits other programs' files. This file has the entry point alone, and imports hardly anything:
what it does first counts for all that is imported after it.
"""

import gc

from ..lazy import load

GARBAGE_OBJECTS = 150_000
"""How many new objects there are before Python looks for garbage: the modules of a server make a hundred thousand and
no garbage, and to look through them is a tenth of the time that a start takes."""


def main() -> None:
    """Runs the command line. Exit codes: 0 done, 1 the call failed, 2 it cannot be done as asked."""
    gc.set_threshold(GARBAGE_OBJECTS)
    load("command_line")()
