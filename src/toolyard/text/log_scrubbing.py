"""Scrubs what is logged while a call runs of what the call was given in confidence, whoever logs it.

Replaces hooks of the whole process (the factory of log records, the writers of warnings and of exceptions that nobody
can catch), so it is switched on once, at start, by whoever owns the process.
"""

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TextIO

from .scrubber import Scrubber

active: ContextVar[Scrubber | None] = ContextVar("what the running call was given", default=None)
_under_way: dict[Scrubber, None] = {}
"""Of all calls that were given something and run in this process now: a thread that a tool starts does not know whose
it is."""


def begin(scrubber: Scrubber) -> None:
    """What is logged from here on is without what its call was given, also by threads that belong to no call."""
    _under_way[scrubber] = None
    active.set(scrubber)


def end(scrubber: Scrubber) -> None:
    """The call has ended. Once, or more often."""
    _under_way.pop(scrubber, None)
    if active.get() is scrubber:
        active.set(None)


def scrub_logs() -> None:
    """From now on every record that is logged while a call runs is without what the call was given, whoever logs it and
    whoever writes it down. Once is enough; again does nothing."""
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
        return repr(thing)
    except Exception:  # an author's own
        return f"a {type(thing).__name__}"


def log_warnings() -> None:
    """Python's warnings become records, which are scrubbed and go where the others go. (The way of `logging` itself
    shows them to nobody where no handler was set up.)"""
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
    """Makes records as before, and scrubs them where there is something to scrub."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        scrubber = active.get()
        if scrubber is not None and scrubber in _under_way:
            _scrub(record, [scrubber])
        elif scrubber is not None or _under_way:
            _scrub(record, [*filter(None, [scrubber]), *list(_under_way)])
        return record


def _scrub(record: logging.LogRecord, scrubbers: list[Scrubber]) -> None:
    def text(given: str) -> str:
        for scrubber in scrubbers:
            given = scrubber.text(given)
        return given

    try:
        message = record.getMessage()
    except Exception:  # an author's arguments: whoever writes it down says what is wrong with them
        message = f"{record.msg} {record.args}"
    record.msg, record.args = text(message), None
    if record.exc_info:
        record.exc_text = text("".join(traceback.format_exception(*record.exc_info)).rstrip("\n"))
        record.exc_info = None
    if record.stack_info:
        record.stack_info = text(record.stack_info)
