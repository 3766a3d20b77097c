"""What authors' code raises, which may be anything, and may do anything when somebody writes it down.

Where an author's function raises, that function has failed, and nobody else notices: also where it raises what would
end a process or a task.
"""

import asyncio
import logging
from typing import Any


def is_stopped(raised: BaseException) -> bool:
    """Whether it says that the current task was told to stop. An author's code may raise the same, told by nobody."""
    task = asyncio.current_task() if isinstance(raised, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def text_of(raised: BaseException) -> str:
    """What it says, in words."""
    return _in_words(str, raised)


def named(raised: BaseException) -> str:
    """Its kind, and what it says, if anything."""
    text = text_of(raised)
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def shown(value: Any, most: int = 80) -> str:
    """A value as Python shows it, if it lets itself be shown."""
    return _in_words(repr, value)[:most]


def log_raised(log: logging.Logger, raised: BaseException, message: str, *args: object) -> None:
    """As an error, with its traceback where that can be written."""
    try:
        log.error(message, *args, exc_info=raised)
    except BaseException:  # an author's code
        log.error(f"{message}: %s, which cannot be shown", *args, type(raised).__name__)


def _in_words(how: Any, value: Any) -> str:
    try:
        return str(how(value))
    except BaseException:  # an author's code
        return "it cannot be shown"
