"""Exceptions that authors' code raises, handled so that only that code fails.

Authors' code may raise anything: also SystemExit or CancelledError, which would end a process or a task, and exceptions
whose own `__str__` raises. Whoever runs such code catches BaseException around it, and uses these functions to tell a
cancelled task from a tool that raised CancelledError, and to put what was raised into words or the log.
"""

import asyncio
import logging
from typing import Any

from ..text.log_scrubbing import excerpt
from ..text.tracebacks import LONGEST_TEXT


def is_stopped(raised: BaseException) -> bool:
    """Whether this is the cancellation of the current task. An author's code may raise CancelledError without one."""
    task = asyncio.current_task() if isinstance(raised, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def text_of(raised: BaseException) -> str:
    """The exception's message. Of a long one, which may be a tool's whole input, the beginning and the end."""
    return excerpt(_in_words(str, raised), LONGEST_TEXT)


def named(raised: BaseException) -> str:
    """The exception's class, and its message if it has one."""
    text = text_of(raised)
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def shown(value: Any, most: int = 80) -> str:
    """The `repr` of an author's value, cut to a length, whatever that `repr` does."""
    return _in_words(repr, value)[:most]


def log_raised(log: logging.Logger, raised: BaseException, message: str, *args: object) -> None:
    """Logs a message as an error, with the exception's traceback where that can be formatted."""
    try:
        log.error(message, *args, exc_info=raised)
    except BaseException:  # the exception's own __str__, which formatting a traceback calls
        log.error(f"{message}: %s, which cannot be shown", *args, type(raised).__name__)


def _in_words(how: Any, value: Any) -> str:
    try:
        return str(how(value))
    except BaseException:  # the author's own __str__ or __repr__
        return "it cannot be shown"
