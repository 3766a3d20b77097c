"""Asks the person at the terminal before a tool is called that may do what cannot be undone."""

import sys
from typing import Any, Literal

from ..client.confirming import declined
from ..client.speech import MCP_PATH
from ..model.errors import SetupError
from .screen import complain, in_json

Asking = Literal["always", "destructive", "never"]


def asking_of(confirmed: bool, yes: bool, server: str) -> Asking:
    """Before which tools. Without a word about it, before those that are destructive: where there is somebody to ask,
    and the wire says which they are."""
    if confirmed and yes:
        raise SetupError("--confirm asks before the call, and --yes does not; choose one of them")
    if confirmed:
        return "always"
    may_ask = not yes and sys.stdin.isatty() and sys.stderr.isatty() and server.rstrip("/").endswith(MCP_PATH)
    return "destructive" if may_ask else "never"


def confirm(tool: str, listed: dict[str, Any], given: dict[str, Any], asking: Asking) -> None:
    """Shows the tool as its server describes it, and the input as it would be sent. Raises Declined."""
    is_destructive = _is_destructive(listed)
    if asking == "never" or (asking == "destructive" and not is_destructive):
        return
    said = " (its server calls it destructive)" if is_destructive else ""
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


def _is_destructive(listed: dict[str, Any]) -> bool:
    hints = listed.get("annotations")
    return isinstance(hints, dict) and hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True
