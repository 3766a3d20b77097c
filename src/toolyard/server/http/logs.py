"""The log: to standard error, a line each, as text or as JSON, with the request that it is about, and without anything
that looks like a credential, or that a terminal would obey.

Both happen when a line is made and not where it is logged: whoever logs, a library or a tool, cannot forget it. It is
made in the task or thread that logs, which knows the request, and written in a thread of its own (`log_writer`).
"""

import json
import logging
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from ...model.caller import full_name
from ...text.excerpts import without_credentials
from ...text.hidden import escaped, escaped_json, in_one_line
from ...text.log_scrubbing import LONGEST_MESSAGE, excerpt, log_warnings, traceback_of
from .exchange import Exchange
from .log_writer import LogWriter
from .trace_context import trace_of

current: ContextVar[Exchange | None] = ContextVar("current request", default=None)
"""The request that a task is at work for; None for what the server does by itself."""
LONGEST = 300
TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class TextLines(logging.Formatter):
    """Log lines for people: time, level, logger, message, and the request in brackets."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__(TEXT)
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        record.message, record.asctime = _message(record), self.formatTime(record)
        parts = [self.formatMessage(record), _exception(record), excerpt(record.stack_info or "", LONGEST_MESSAGE)]
        # After the whole line is made, traceback and all: a secret in an exception is one in the log.
        return escaped(without_credentials("\n".join(filter(None, parts))))

    def formatMessage(self, record: logging.LogRecord) -> str:
        about = _process(self._process) | _about(current.get())
        more = " [" + " ".join(f"{name}={value}" for name, value in about.items()) + "]" if about else ""
        return super().formatMessage(record) + more


class JsonLines(logging.Formatter):
    """Log lines for programs: one JSON object each."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_credentials(_message(record)),
            **_process(self._process),
            **_about(current.get()),
        }
        if exception := _exception(record):
            said["exception"] = without_credentials(exception)
        return escaped_json(json.dumps(said, ensure_ascii=False, default=str))


class SharedLog(NamedTuple):
    """How a process writes to a log that is also others': under its number among them, which is None for their parent,
    and in turns, by a file that all of them lock."""

    process: int | None
    lock: Path


def set_up_logging(level: str, style: str = "text", shared: SharedLog | None = None) -> None:
    """Sets up the log of this process, in place of whatever was there. What Python warns of goes into it, too."""
    log_warnings()
    logging.raiseExceptions = False  # a line that cannot be made, of an author's arguments, costs nobody an answer
    process, lock = (None, None) if shared is None else shared
    handler = LogWriter(sys.stderr, lock)
    handler.setFormatter(JsonLines(process) if style == "json" else TextLines(process))
    root = logging.getLogger()
    before, root.handlers[:] = list(root.handlers), [handler]
    for each in before:
        if isinstance(each, LogWriter):
            each.stop()
    set_log_level(level)


def set_log_level(level: str) -> None:
    """Has the log of this process tell so much from now on."""
    logging.getLogger().setLevel(level.upper())
    # uvicorn says at info what this server says itself.
    logging.getLogger("uvicorn").setLevel("WARNING" if level == "info" else level.upper())


def _message(record: logging.LogRecord) -> str:
    return excerpt(record.getMessage(), LONGEST_MESSAGE)


def _exception(record: logging.LogRecord) -> str:
    """A record's traceback, if it has one. (It is not kept at the record: other handlers have their own formatters.)"""
    if record.exc_text:
        return excerpt(record.exc_text, LONGEST_MESSAGE)
    raised = record.exc_info[1] if record.exc_info else None
    return "" if raised is None else traceback_of(raised)


def _process(number: int | None) -> dict[str, Any]:
    """What a line says of its process, where several write to one log."""
    return {} if number is None else {"process": number}


def _about(exchange: Exchange | None) -> dict[str, str]:
    """What a line says of its request: its id and path, its trace, and its caller once that is known."""
    if exchange is None:
        return {}
    about = {"request": without_credentials(exchange.id), "path": _in_one_line(exchange.path)}
    if (trace := trace_of(exchange.headers)) is not None:
        about["trace"] = trace[0]
    if exchange.is_admitted:
        about["caller"] = _in_one_line(full_name(exchange.caller.tenant, exchange.caller.subject))
    return about


def _in_one_line(given: str) -> str:
    """What a client wrote, such as a path, so that it can neither look like another line nor hold a credential."""
    return without_credentials(in_one_line(given[:LONGEST]))
