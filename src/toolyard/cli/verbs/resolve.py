"""`toolyard resolve`: an operator settles a call that ended as `outcome_unknown`, because its server or worker was lost
while the tool ran."""

from typing import Annotated, Any

import msgspec
import typer
from msgspec import Raw

from ...model.errors import SetupError
from ...model.json_value import decode
from ...wires.admin import calls as wire
from ..support.ledger import WHERE, Caller, Family, OperatedServer, Store, operator_of
from ..support.screen import complaints, pretty, say
from ..support.target import Json
from .calls import CallId, line

NO_LEDGER = f"a call is settled in the ledger: {WHERE}"


def resolve(
    call_id: CallId,
    message: Annotated[str | None, typer.Argument(help="With --failed: why.", show_default=False)] = None,
    done: Annotated[str | None, typer.Option(metavar="JSON", help="It was done, and this is its result.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It was not done.")] = False,
    rerun: Annotated[bool, typer.Option("--rerun", help="Run it once more.")] = False,
    server: OperatedServer = None,
    store: Store = None,
    caller: Caller = None,
    family: Family = None,
    json: Json = False,
) -> None:
    """Settle a call of which nobody knows whether it was done.

    It ended as outcome_unknown, because its server or worker was lost while the tool ran. Find out what happened, and
    say it with one of --done JSON, --failed [MESSAGE] and --rerun.

    toolyard resolve order-7 --done '{"receipt": 42}'
    """
    how = _how(done, failed, message, rerun)
    with complaints(), operator_of(server, store, NO_LEDGER) as operator:
        resolved = operator.ask(wire.encode_settlement(wire.WhichCall(call_id, caller, family), how))
        say(pretty(resolved) if json else line(resolved))


def _how(done: str | None, failed: bool, message: str | None, rerun: bool) -> dict[str, Any]:
    if [done is not None, failed, rerun].count(True) != 1:
        raise SetupError("say how the call is settled: with one of --done JSON, --failed [MESSAGE] and --rerun")
    if message is not None and not failed:
        raise SetupError(f"{message!r} is too much; a message goes with --failed")
    if done is not None:
        return {"done": _json(done)}
    return {"failed": message or ""} if failed else {"rerun": True}


def _json(text: str) -> Raw:
    try:
        decode(text)
    except msgspec.DecodeError as error:
        raise SetupError(f"--done is not JSON: {error}; a text is written '\"text\"'") from None
    return Raw(text.encode())
