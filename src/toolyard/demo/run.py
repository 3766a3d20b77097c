"""Runs the demo from beginning to end, and leaves nothing behind, however it ends: processes, threads, folder."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from ..model.errors import SetupError, ToolyardError
from ..text.hidden import escaped
from .screen import Screen
from .stage import folder_at, log_of, stage_in
from .story import Story
from .visitor import Visitor

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 128 + signal.SIGINT
AS = "ada"
"""The person that `--auto` plays."""


def run(*, auto: bool, keep: Path | None) -> int:
    """Runs the demo and returns its exit code. Raises SetupError where it cannot start."""
    # Every signal that ends the demo becomes KeyboardInterrupt, so that the context managers clean up. One that is
    # ignored (nohup, a background job) stays ignored.
    for number in ENDINGS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    screen = Screen()
    try:
        _run(screen, auto, keep)
    except KeyboardInterrupt:
        screen.say("", "Stopped." if keep else "Stopped. Nothing is left of it.")
        return INTERRUPTED
    except SetupError:  # the command line shows these itself
        raise
    except ToolyardError as error:
        sys.stderr.write(escaped(f"The demo cannot go on: {error}\n"))
        return 1
    return 0


def _run(screen: Screen, auto: bool, keep: Path | None) -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(folder_at(keep))
        screen.say("Starting a server and a provider, on this machine alone. Stop with Ctrl-C.", "")
        stage = stack.enter_context(stage_in(folder))
        client = stack.enter_context(stage.client())
        visitor = stack.enter_context(Visitor(AS)) if auto else None
        try:
            Story(stage, client, screen, visitor).tell()
        except ToolyardError:
            sys.stderr.write(escaped(f"What the server said:\n{log_of(folder)}\n"))
            raise
    left = (
        f"{folder} has its tools, settings and ledger" if keep else "The server, the provider and the folder are gone"
    )
    screen.say("", f"That was all. {left}.")


def _leave(*_: object) -> None:
    """Ends the demo. A second Ctrl-C is ignored: it would interrupt the cleaning up."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
