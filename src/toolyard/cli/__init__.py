"""The command line: one file a verb, and only the verb that was asked for is loaded."""

import os
import sys
import traceback

import typer

from ..doors import VERBS, open_verb
from ..model.errors import SetupError
from ..version import VERSION
from .screen import complain, say


def main() -> None:
    """Exit codes: 0 done, 1 the call failed, 2 it cannot be done as asked."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        command_line(sys.argv[1:2])()
    except SetupError as error:
        if debug:
            complain(traceback.format_exc())
        complain(f"toolyard: {str(error).replace(os.getcwd() + os.sep, '')}\n")
        sys.exit(2)


def command_line(first_words: list[str]) -> typer.Typer:
    """With the verb that the first word names, or with all of them."""
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
    """A verb that has verbs of its own is an application of its own."""
    opened = open_verb(verb)
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
