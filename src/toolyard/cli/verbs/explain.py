"""`toolyard explain`: tells an operator whether a caller sees a tool and may call it, and which rule says so."""

from typing import Annotated

import msgspec
import typer

from ...model.errors import SetupError
from ...operator.explain import explained, explained_by
from ...wires.admin.explain import ExplainQuery, Explanation
from ..support.ledger import OperatedServer, named_server, server_operated, settings_with, tell_ledger
from ..support.screen import complaints, pretty, say
from ..support.target import Json


def explain(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Calculator.Add, its name on the wires, prompts/NAME.")],
    as_: Annotated[str | None, typer.Option("--as", metavar="SUBJECT", help="Who would call it.")] = None,
    tenant: Annotated[str, typer.Option(help="The caller's tenant.")] = "default",
    key: Annotated[str | None, typer.Option(metavar="NAME", help="With which API key of the ledger.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="What the token is for; may be given several times.")] = None,
    claim: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="What else the token says.")] = None,
    tools: Annotated[list[str] | None, typer.Option(help="Where the tools are, if no server runs.")] = None,
    server: OperatedServer = None,
    store: Annotated[str | None, typer.Option(help="The ledger of the server (sqlite:toolyard.db).")] = None,
    json: Json = False,
) -> None:
    """Say whether a caller may call a tool, and why.

    Names the access rule that decides whether the caller sees the tool and may call it, and the limits, requirements
    and approvals that a call of it would meet. The exit code is 0 where it may, and 1 where it may not.
    """
    if as_ is None and key is None:
        raise SetupError("say who would call it, with --as SUBJECT or --key NAME")
    if as_ is not None and key is not None:
        raise SetupError("--as and --key are two callers; name one of them (a key is its own subject's)")
    query = ExplainQuery(tool, as_ or "", tenant, key, tuple(scope or ()), dict(map(_claim, claim or ())))
    with complaints():
        found = _explained(query, server, store, tools or [])
    say(pretty(msgspec.to_builtins(found)) if json else _in_words(found, key or as_ or ""))
    if not found.may_call:
        raise typer.Exit(1)


def _explained(query: ExplainQuery, server: str | None, store: str | None, tools: list[str]) -> Explanation:
    elsewhere = server_operated(server, store)
    if elsewhere is not None and not tools:
        return explained_by(named_server(elsewhere), query)
    if server is not None:
        raise SetupError("--server and --tools are two places; name one of them")
    settings = settings_with(store)
    tell_ledger(settings, store)
    return explained(query, settings, tools)


def _in_words(found: Explanation, who: str) -> str:
    """The answer as text, a line for each fact."""
    may = "may call" if found.may_call else "sees, and may not call," if found.sees else "does not see"
    lines = [f"{who} {may} {found.tool}", f"  because: {found.rule}"]
    if found.lacks:
        lines.append(f"  lacks the scopes: {', '.join(found.lacks)}")
    lines += [f"  limit: {limit}" for limit in found.limits]
    for name, value in found.requirements.items():
        lines.append(f"  the tool needs: {name}, {value}" if isinstance(value, str) else f"  the tool needs: {name}")
    lines += [f"  needs no approval: by the rule {found.spared_by}"] if found.spared_by else []
    return "\n".join(lines) + "\n"


def _claim(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not name or not sign:
        raise SetupError(f"--claim {word!r} is not NAME=VALUE")
    return name, value
