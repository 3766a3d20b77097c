"""Asks the person at the terminal before a tool is called that may do what cannot be undone."""

import sys
from typing import Any

from ..client.confirming import declined
from ..client.speech import MCP_PATH
from .screen import complain, in_json


def confirm(tool: str, listed: dict[str, Any], given: dict[str, Any]) -> None:
    """Shows the tool as its server describes it, and the input as it would be sent. Raises Declined."""
    said = " (its server calls it destructive)" if is_destructive(listed) else ""
    summary = (str(listed.get("description", "")).splitlines() or [""])[0]
    try:
        complain(f"{tool}{said}: {summary}\n  input {in_json(given)}Call {tool}? [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        complain("\n")
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise declined(tool)


def is_destructive(listed: dict[str, Any]) -> bool:
    hints = listed.get("annotations")
    return isinstance(hints, dict) and hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True


def may_say_hints(server: str) -> bool:
    """Whether there is somebody to ask, and the wire says which tools are destructive."""
    return is_a_person_here() and server.rstrip("/").endswith(MCP_PATH)


def is_a_person_here() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()
