"""Asks the person at the terminal before a call that may do what cannot be undone.

A trusted server says itself which of its tools are destructive. At any other server each call is asked about; without a
terminal, `--yes` has to be on the command line.
"""

import sys
from typing import Annotated, Any, Literal

import typer

from ...client.confirm import declined, is_named, is_on_this_machine
from ...model.errors import SetupError
from .screen import complain, in_json
from .target import address

Asking = Literal["always", "destructive", "never"]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        envvar="TOOLYARD_TRUST",
        metavar="ADDRESS",
        help="A server whose word counts about which of its tools are harmless, as that of one on this machine does. "
        "Calls at others are asked about.",
    ),
]


def is_trusted(server: str, trusted: list[str] | None) -> bool:
    """Whether what the server says about its tools counts: it is on this machine, or named with --trust."""
    named = [address(each, "--trust") for each in trusted or ()]
    return is_on_this_machine(address(server)) or is_named(server, named)


def asking_of(confirmed: bool, yes: bool, *, tells_hints: bool, is_trusted: bool) -> Asking:
    """Before calls of which tools a person is asked. `tells_hints`: whether the wire has hints. Raises SetupError where
    a call must be asked about and there is no terminal."""
    if confirmed and yes:
        raise SetupError("--confirm asks before the call, and --yes does not; choose one of them")
    if confirmed or yes:
        return "always" if confirmed else "never"
    has_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if is_trusted:
        return "destructive" if has_terminal and tells_hints else "never"
    if has_terminal:
        return "always"
    raise SetupError(
        "calls at this server are asked about, because it is neither on this machine nor trusted, and there is no "
        "terminal to ask at; pass --yes to make this call, or name the server with --trust"
    )


def confirm(tool: str, listed: dict[str, Any], given: dict[str, Any], asking: Asking, is_trusted: bool) -> None:
    """Shows the tool as its server describes it and the input as it would be sent, and asks where `asking` says so.
    Raises Declined unless the person says yes."""
    is_destructive = _is_destructive(listed)
    if asking == "never" or (asking == "destructive" and not is_destructive):
        return
    said = " (its server calls it destructive)" if is_destructive else ""
    if not is_trusted:
        said = " (it may be destructive: its server is not one that you trust)"
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
