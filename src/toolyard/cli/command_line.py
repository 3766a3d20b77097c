"""Runs the verb that is asked for: loads that one and no other, and turns an error into a sentence and an exit code."""

import errno
import logging
import os
import sys
import traceback
from typing import Any

import typer

from ..model.errors import SetupError, Unavailable
from ..version import VERSION
from .support.screen import complain, say
from .verbs import VERBS, load_verb

UNWRITTEN = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""Errors of writing, such as a full disk, which Python reports without the name of the file."""


def run() -> None:
    """Exit codes: 0 done, 1 the call failed, or cannot be made now, 2 it cannot be done as asked. Whoever starts a
    server again where it fails does so after 1, and not after 2."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    _open_streams()
    try:
        _run_verb()
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)  # whoever read it has seen enough
    except (SetupError, Unavailable, OSError) as error:
        if debug:
            complain(traceback.format_exc())
        _drop_output()
        _finish_log()
        complain(f"toolyard: {_sentence(error)}\n")
        sys.exit(1 if isinstance(error, Unavailable) else 2)


def _open_streams() -> None:
    """Replaces standard streams that whoever started this process has closed: there is nothing to read then, and what
    is written to standard output fails as it should."""
    if sys.stdin is None:
        sys.stdin = _nothing(os.O_RDONLY, "r")
    if sys.stdout is None:
        sys.stdout = _nothing(os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _nothing(os.O_WRONLY, "w")


def _nothing(flags: int, mode: str) -> Any:
    """An empty stream. The system gives it the lowest descriptor that is free, which is that of the closed stream, and
    it is never closed, so that no other file gets that descriptor."""
    return open(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False)


def _run_verb() -> None:
    try:
        command_line(sys.argv[1:2])()
    except SystemExit:
        sys.stdout.flush()  # what could not be written is no success
        raise


def _drop_output() -> None:
    """Drops what could not be written so far. Python would write it again at exit, and report the failure once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _finish_log() -> None:
    """Has what was logged written first: a server writes its log in a thread."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def _sentence(error: SetupError | Unavailable | OSError) -> str:
    if isinstance(error, Unavailable):  # a database that was there a moment ago
        return f"{error.message} ({error.developer_message})" if error.developer_message else error.message
    if isinstance(error, SetupError):
        return _without_folder(str(error))
    if error.filename is None and error.errno in UNWRITTEN:
        return f"standard output or a file cannot be written: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _without_folder(sentence: str) -> str:
    """Paths within the working directory are shown without it."""
    try:
        return sentence.replace(os.getcwd() + os.sep, "")
    except OSError:
        return f"{sentence} (the working directory is gone)"


def command_line(first_words: list[str]) -> typer.Typer:
    """The application with the verb that the first word names, or with all verbs."""
    app = typer.Typer(
        name="toolyard",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(epilog="--debug shows the traceback behind an error.")(toolyard)
    for verb in first_words if first_words and first_words[0] in VERBS else VERBS:
        _add(app, verb)
    return app


def _add(app: typer.Typer, verb: str) -> None:
    """Adds a verb: a function, or an application where the verb has verbs of its own."""
    opened = load_verb(verb)
    if isinstance(opened, typer.Typer):
        app.add_typer(opened, name=verb)
    else:
        app.command(verb)(opened)


def show_version(wanted: bool) -> None:
    if wanted:
        say(f"toolyard {VERSION}\n")
        raise typer.Exit


def toolyard(
    version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=show_version),
) -> None:
    """One tool, every wire: serve typed Python functions to any agent."""
