"""Keeps a running call's secrets and tokens out of the log, whoever logs: the tool, a library, a thread they started.

A filter on toolyard's own handlers would not be enough: an author's handlers, and those of libraries, write records
down as well. So this replaces hooks of the whole process: the factory of log records, and the writers of warnings and
of exceptions that nobody can catch. Whoever owns the process (server, worker, child process) switches it on once, at
start.
"""

import logging
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TextIO

from . import excerpts
from .excerpts import MARGIN, without_credentials
from .scrubber import Scrubber
from .tracebacks import traceback_text

LONGEST_MESSAGE = 64 * 2**10
"""How many characters of a record's message are kept."""

active: ContextVar[Scrubber | None] = ContextVar("what the running call was given", default=None)
"""The scrubber of the call that this task or thread works for."""
_under_way: dict[Scrubber, None] = {}
"""The scrubbers of all calls that run in this process now, in the order they began. A thread that a tool starts does
not inherit `active`, so what it logs is scrubbed by all of them."""


def begin(scrubber: Scrubber) -> None:
    """A call begins: until `end`, log records are scrubbed of what it was given, also those of unknown threads."""
    _under_way[scrubber] = None
    active.set(scrubber)


def end(scrubber: Scrubber) -> None:
    """The call has ended. To say so again does no harm."""
    _under_way.pop(scrubber, None)
    if active.get() is scrubber:
        active.set(None)


def excerpt(text: str, most: int) -> str:
    """A text cut to a length. What the cut could split, of what running calls were given, is hidden before; a text that
    is short enough is returned as it is."""
    if len(text) <= most:
        return text
    scrubbers = _scrubbers()

    def scrub(part: str) -> str:
        return without_credentials(_scrubbed(part, scrubbers))

    return excerpts.excerpt(text, most, scrub, max(MARGIN, *(each.longest for each in scrubbers), 0))


def traceback_of(raised: BaseException) -> str:
    """An exception with its traceback, cut to a length as `excerpt` does."""
    return traceback_text(raised, excerpt)


def _scrubbers() -> list[Scrubber]:
    """The scrubbers of what this task or thread may be speaking of."""
    scrubber = active.get()
    if scrubber is not None and scrubber in _under_way:
        return [scrubber]
    # Nobody knows whose text this is, or its call has ended already: it may be about any call.
    return [*filter(None, [scrubber]), *list(_under_way)]


def _scrubbed(text: str, scrubbers: list[Scrubber]) -> str:
    for scrubber in scrubbers:
        text = scrubber.text(text)
    return text


def scrub_logs() -> None:
    """From now on every record that is logged while a call runs is scrubbed when it is made, before any handler sees
    it. A second call does nothing."""
    make = logging.getLogRecordFactory()
    if isinstance(make, _Records):
        return
    logging.setLogRecordFactory(_Records(make))
    threading.excepthook = partial(_log_dead_thread, threading.excepthook)
    sys.unraisablehook = partial(_log_unraisable, sys.unraisablehook)


_uncaught = logging.getLogger("toolyard.uncaught")


def _log_dead_thread(before: Callable[[Any], object], ended: threading.ExceptHookArgs) -> None:
    """An exception that ended a thread, perhaps one that a tool started. While no call has anything in confidence,
    Python says it as `before`."""
    if not _under_way or ended.exc_type is SystemExit or ended.exc_value is None:
        before(ended)
        return
    name = "?" if ended.thread is None else ended.thread.name
    _uncaught.error(
        "an exception ended the thread %s", name, exc_info=(ended.exc_type, ended.exc_value, ended.exc_traceback)
    )


def _log_unraisable(before: Callable[[Any], object], ignored: "sys.UnraisableHookArgs") -> None:
    """One that Python ignores, as in `__del__`."""
    if not _under_way or ignored.exc_value is None:
        before(ignored)
        return
    where = f"{ignored.err_msg or 'Exception ignored in'}: {_named(ignored.object)}"
    _uncaught.error("%s", where, exc_info=(ignored.exc_type, ignored.exc_value, ignored.exc_traceback))


def _named(thing: Any) -> str:
    try:
        return excerpt(repr(thing), LONGEST_MESSAGE)
    except Exception:  # an author's own
        return f"a {type(thing).__name__}"


def log_warnings() -> None:
    """Python's warnings become log records, which are scrubbed and go where the others go. (`logging.captureWarnings`
    would do the same, but shows them to nobody where no handler was set up.)"""
    warnings.showwarning = _log_warning


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if file is not None:
        file.write(text)
    else:
        logging.getLogger("py.warnings").warning("%s", text.rstrip("\n"))


class _Records:
    """A factory of log records: makes them as the factory before it did, and scrubs them while calls run."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        if scrubbers := _scrubbers():
            _scrub(record, scrubbers)
        return record


def _scrub(record: logging.LogRecord, scrubbers: list[Scrubber]) -> None:
    try:
        message = record.getMessage()
    except Exception:  # the author's arguments do not fit the author's message: log both as they are
        message = f"{record.msg} {record.args}"
    record.msg, record.args = excerpt(message, LONGEST_MESSAGE), None
    # A handler would format the traceback itself, from exceptions that still have the secret in them.
    if record.exc_info:
        raised = record.exc_info[1]
        record.exc_text = None if raised is None else traceback_of(raised)
        record.exc_info = None
    if record.stack_info:
        record.stack_info = excerpt(record.stack_info, LONGEST_MESSAGE)
    # Whatever a formatter may put into its line: also the names of the logger, the thread, the task and the function.
    for name, value in vars(record).items():
        if isinstance(value, str):
            setattr(record, name, _scrubbed(value, scrubbers))
