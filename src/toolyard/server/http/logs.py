"""The log: to standard error, a line each, as text or as JSON, with the request that it is about, and without anything
that looks like a credential, or that a terminal would obey.

Both happen when a line is written and not where it is logged: whoever logs, a library or a tool, cannot forget it.
"""

import json
import logging
import re
import sys
from contextvars import ContextVar
from typing import Any

from ...model.caller import full_name
from ...text.hidden import escaped, escaped_json, in_one_line
from ...text.log_scrubbing import log_warnings
from .exchange import Exchange
from .trace_context import trace_of

current: ContextVar[Exchange | None] = ContextVar("current request", default=None)
"""The request that a task is at work for; None for what the server does by itself."""
_secrets = re.compile(
    r"\bty_[A-Za-z0-9_.~-]{6,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{6,}"
)
"""API keys, JWTs, a password in an address, and whatever an Authorization header has."""
HIDDEN = "[hidden]"
LONGEST = 300
TEXT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def without_secrets(text: str) -> str:
    """A text in which whatever looks like a credential is replaced."""
    return _secrets.sub(HIDDEN, text)


class TextLines(logging.Formatter):
    """Log lines for people: time, level, logger, message, and the request in brackets."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        # After the whole line is made, traceback and all: a secret in an exception is one in the log.
        return escaped(without_secrets(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:
        about = _about(current.get())
        more = " [" + " ".join(f"{name}={value}" for name, value in about.items()) + "]" if about else ""
        return super().formatMessage(record) + more


class JsonLines(logging.Formatter):
    """Log lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **_about(current.get()),
        }
        if record.exc_info or record.exc_text:
            said["exception"] = without_secrets(record.exc_text or self.formatException(record.exc_info))  # type: ignore[arg-type]
        return escaped_json(json.dumps(said, ensure_ascii=False, default=str))


def set_up_logging(level: str, style: str = "text") -> None:
    """Sets up the log of this process, in place of whatever was there. What Python warns of goes into it, too."""
    log_warnings()
    logging.raiseExceptions = False  # a line that cannot be written, to a full disk, must not cost anybody an answer
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # uvicorn says at info what this server says itself.
    logging.getLogger("uvicorn").setLevel("WARNING" if level == "info" else level.upper())


def _about(exchange: Exchange | None) -> dict[str, str]:
    """What a line says of its request: its id and path, its trace, and its caller once that is known."""
    if exchange is None:
        return {}
    about = {"request": without_secrets(exchange.id), "path": _in_one_line(exchange.path)}
    if (trace := trace_of(exchange.headers)) is not None:
        about["trace"] = trace[0]
    if exchange.is_admitted:
        about["caller"] = _in_one_line(full_name(exchange.caller.tenant, exchange.caller.subject))
    return about


def _in_one_line(given: str) -> str:
    """What a client wrote, such as a path, so that it can neither look like another line nor hold a credential."""
    return without_secrets(in_one_line(given[:LONGEST]))
