"""`toolyard call`: somebody at a terminal, or a script, calls a tool of a server or of a file, and gets what it
returns."""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...client.client import DEFAULT_URL, CallOptions
from ...client.confirm import hints_of, shown
from ...client.protocols import speaks_mcp
from ...model.call import Outcome
from ...model.clock import random_id
from ...model.errors import (
    Busy,
    InvalidInput,
    MissingRequirements,
    SetupError,
    ToolError,
    ToolyardError,
    nobody_can_approve,
)
from ...model.json_value import decode, decode_as
from ..support.confirm import Trust, asking_of, confirm, is_trusted
from ..support.options import filled, named
from ..support.screen import complain, pretty, say
from ..support.target import Ca, File, Json, Key, Server, connect, loaded
from ..support.waiting_for_people import outcome_of, retried

NOBODY = "with --file there is no server that could ask; start one, and call it there: toolyard serve"
INTERRUPTED = 128 + signal.SIGINT


def call(
    tool: Annotated[str, typer.Argument(help="Toolkit.Tool, with @1 or @1.2.3 for a version.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="The tool's input.")] = None,
    input: Annotated[str | None, typer.Option(help="The input as JSON, @file, or - for standard input.")] = None,
    server: Server = DEFAULT_URL,
    key: Key = None,
    ca: Ca = None,
    file: File = None,
    json: Json = False,
    user_id: Annotated[str | None, typer.Option(help="The user this call is for.")] = None,
    secret: Annotated[list[str] | None, typer.Option(metavar="ID=VALUE", help="A secret for the tool.")] = None,
    token: Annotated[list[str] | None, typer.Option(metavar="PROVIDER=TOKEN", help="A token for the tool.")] = None,
    call_id: Annotated[str | None, typer.Option(help="The call's idempotency key.")] = None,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="Wait for its end, however long it takes; or not even for a person who has to agree or sign in first.",
        ),
    ] = None,
    confirmed: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Show the input and ask before the call. Without this or --yes, at a terminal, it is asked about "
            "where the server is neither on this machine nor trusted, and where it says (over MCP) that the tool is "
            "destructive.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the call.")] = False,
    trust: Trust = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what an error says to developers, too.")
    ] = False,
) -> None:
    """Call a tool and print what it returns. Where a person has to agree first, show where, and wait.

    toolyard call Calculator.Add a=10 b=5
    """
    trusted = file is not None or is_trusted(server, trust)
    asking = asking_of(confirmed, yes, tells_hints=file is not None or speaks_mcp(server), is_trusted=trusted)
    words, given = named(arguments, "NAME=VALUE"), _whole_input(input)
    options: CallOptions = {
        "user_id": user_id,
        "secrets": filled(secret, "ID=VALUE", "--secret"),
        "tokens": filled(token, "PROVIDER=TOKEN", "--token"),
        "call_id": random_id() if call_id is None else call_id,
        "wait": bool(wait),
    }
    sources = loaded(file)
    with connect(server, key, sources, ca) as client:
        try:
            if words or asking != "never":
                listed = shown(client.list(all_versions="@" in tool), tool, is_trusted=trusted)
                given |= typed(words, listed.get("input_schema") or listed.get("inputSchema") or {})
                confirm(tool, listed | hints_of(listed, sources), given, asking, trusted)
            if file is None and wait is not False:
                outcome = outcome_of(client, tool, given, options)
            elif file is None:
                outcome = retried(client, tool, given, options)
            else:  # with --file the server lives for this call alone, so nobody could approve it or sign in
                outcome = client.outcome(tool, given, **options)
        except ToolyardError as error:
            if isinstance(error, SetupError):
                raise
            if file is not None and isinstance(error, MissingRequirements) and error.missing.approval:
                error = nobody_can_approve(tool, f"{NOBODY} {file}")
            _fail(error, given, json, verbose)
        except KeyboardInterrupt:
            if file is not None:
                raise
            complain(f"\nNot waited for; look for it with: toolyard show {options['call_id']}\n")
            raise typer.Exit(INTERRUPTED) from None
    _show(outcome, json, verbose)


def typed(words: dict[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    """Words of the command line as the values that the tool takes: JSON where it takes such a value, else text."""
    properties = schema.get("properties", {})
    return {name: _value(word, properties.get(name, {})) for name, word in words.items()}


def _value(word: str, schema: Any) -> Any:
    wants = _types(schema)
    if wants == {"string"}:
        return word
    try:
        value = decode(word)
    except msgspec.DecodeError:
        return word
    return value if "string" not in wants or _type(value) & wants else word


def _types(schema: Any) -> set[str]:
    """The JSON Schema types that a value may have; an empty set where it may have any."""
    options = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())] if isinstance(schema, dict) else []
    named = [option.get("type", ()) for option in options if isinstance(option, dict)]
    types = {name for each in named for name in ([each] if isinstance(each, str) else each)}
    values = [value for option in options for value in option.get("enum", ())]
    return types or {name for value in values for name in _type(value)}


def _type(value: Any) -> set[str]:
    """The JSON Schema types of a value. A whole number is a number, too."""
    return _JSON_TYPES[type(value)]


_JSON_TYPES: dict[type, set[str]] = {
    str: {"string"},
    bool: {"boolean"},
    int: {"integer", "number"},
    float: {"number"},
    list: {"array"},
    dict: {"object"},
    type(None): {"null"},
}


def _whole_input(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError(f"--input: {error.filename}: {error.strerror}") from None
    try:
        return decode_as(text, dict[str, Any])
    except msgspec.DecodeError as error:
        raise SetupError(f"--input is not a JSON object: {error}") from None


def _show(outcome: Outcome, json: bool, verbose: bool) -> None:
    if outcome.error is not None:
        _fail(outcome.error, {}, json, verbose, outcome)
    try:
        _show_value(outcome, json)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SetupError(
            f"the call was made, and what it returned cannot be written ({error.strerror}); "
            f"look for it with: toolyard show {outcome.call_id}"
        ) from None


def _show_value(outcome: Outcome, json: bool) -> None:
    value = decode(outcome.value) if outcome.value is not None else None
    if json:
        say(pretty({"call_id": outcome.call_id, "duration": outcome.duration_ms, "success": True, "value": value}))
    elif isinstance(value, str):
        say(value + "\n")
    elif value is not None:
        say(pretty(value))


def _fail(
    error: ToolyardError, given: dict[str, Any], json: bool, verbose: bool, outcome: Outcome | None = None
) -> None:
    """Says what went wrong, on standard error or as JSON on standard output, and ends the verb with exit code 1."""
    if json:
        body: dict[str, Any] = {
            "success": False,
            "error": {"kind": type(error).__name__, "message": error.message},
        }
        if outcome is not None:
            body |= {"call_id": outcome.call_id, "duration": outcome.duration_ms}
        body["error"] |= {name: value for name, value in _details(error).items() if value is not None}
        say(pretty(body))
    else:
        complain("\n".join([*_sentences(error, given), *_for_developers(error, verbose)]) + "\n")
    raise typer.Exit(1)


def _details(error: ToolyardError) -> dict[str, Any]:
    details: dict[str, Any] = {"developer_message": error.developer_message}
    if isinstance(error, InvalidInput):
        details["parameter_errors"] = {p.path: p.sentence for p in error.problems}
    elif isinstance(error, MissingRequirements):
        details["missing_requirements"] = msgspec.to_builtins(error.missing)
    elif isinstance(error, ToolError):
        details |= {"can_retry": error.can_retry, "retry_after_ms": error.retry_after_ms}
        details["additional_prompt_content"] = error.additional_prompt_content or None
    elif isinstance(error, Busy):
        details["retry_after_ms"] = error.retry_after_ms
    return details


def _sentences(error: ToolyardError, given: dict[str, Any]) -> list[str]:
    lines = [error.message]
    if isinstance(error, InvalidInput):
        lines += [f"  {p.path}: {p.sentence}{_got(p.path, given)}" for p in error.problems]
    if isinstance(error, MissingRequirements):
        lines += [f"  open {challenge.url}" for challenge in error.missing.authorization]
        lines += [f"  pass --secret {id}=…" for id in error.missing.secrets]
        lines += ["  pass --user-id …"] if error.missing.user_id else []
    elif isinstance(error, ToolError) and error.additional_prompt_content:
        lines.append(f"  {error.additional_prompt_content}")
    elif isinstance(error, Busy):
        lines.append(f"  try again in {error.retry_after_ms / 1000:g} s")
    return lines


def _for_developers(error: ToolyardError, verbose: bool) -> list[str]:
    """What the error says to developers; or, where the message alone may not help, that there is more to see."""
    if not error.developer_message or isinstance(error, InvalidInput):
        return []
    if verbose:
        return [f"  {error.developer_message}"]
    return [] if isinstance(error, ToolError | MissingRequirements) else ["  (-v says more)"]


def _got(path: str, given: dict[str, Any]) -> str:
    return f" (got {msgspec.json.encode(given[path]).decode()[:80]})" if path in given else ""
