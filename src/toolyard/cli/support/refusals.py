"""How a verb tells that the server refused, or is not there: on standard error, with exit code 1. What is not a server
of toolyard's may answer with anything: that is said, too."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import typer

from ...model.errors import InvalidInput, SetupError, ToolyardError
from ...model.raised import named
from .screen import complain


@contextmanager
def told() -> Iterator[None]:
    try:
        yield
    except ToolyardError as error:
        if isinstance(error, SetupError):
            raise
        details = [error.developer_message] if error.developer_message else []
        if isinstance(error, InvalidInput):
            details += [f"{problem.path}: {problem.sentence}" for problem in error.problems]
        complain("\n  ".join([error.message, *details]) + "\n")
        raise typer.Exit(1) from None
    except (LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise SetupError(f"the server's answer is not one of toolyard's ({named(error)})") from error
