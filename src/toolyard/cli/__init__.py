"""The command line: one file a verb."""

import os
import sys
import traceback

import typer

from ..model.errors import SetupError
from . import call, list_tools, new, serve, settings

app = typer.Typer(
    name="toolyard",
    help="One tool, every wire: serve typed Python functions to any agent.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="--debug shows the traceback behind an error.",
)
app.command("serve")(serve.serve)
app.command("call")(call.call)
app.command("list")(list_tools.list_tools)
app.command("new")(new.new)
app.command("settings")(settings.settings)


def main() -> None:
    """Exit codes: 0 done, 1 the call failed, 2 it cannot be done as asked."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except SetupError as error:
        if debug:
            traceback.print_exc()
        sys.stderr.write(f"toolyard: {str(error).replace(os.getcwd() + os.sep, '')}\n")
        sys.exit(2)
