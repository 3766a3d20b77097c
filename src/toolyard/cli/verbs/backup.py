"""`toolyard backup` and `toolyard restore`: an operator copies a ledger, and goes back to a copy."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

from ...model.errors import SetupError
from ...operator.backup import Backup, KeyPlace, back_up
from ...operator.restore import Restored, RestoreOptions
from ...operator.restore import restore as restored_by
from ...operator.restore import settle as settled_by
from ..support.ledger import refuse_servers, settings_with, tell_ledger
from ..support.screen import complain, complaints, pretty, say
from ..support.target import Json

NO_LEDGER = "a ledger is copied where it is: run this there, or name it with --store"
Store = Annotated[str | None, typer.Option(help="The ledger (sqlite:toolyard.db).")]


def backup(
    file: Annotated[Path, typer.Argument(help="The file to make. It must not be there yet.")],
    with_key: Annotated[
        bool, typer.Option("--with-key", help="Put the key file in, too: then the copy alone tells every secret.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Copy the ledger to a file, while a server uses it or not.

    The copy is of one moment, is checked, and has everything that was acknowledged before. Secrets in it cannot be read
    without the key file, which is not in it unless --with-key says so.
    """
    settings = settings_with(store)
    tell_ledger(settings, store)
    with complaints():
        made = back_up(settings, file, with_key=with_key)
    if json:
        say(pretty(_fields(made)))
        return
    say(f"{made.file} is {made.ledger} as it was at {_moment(made.made_at)}, checked, {_size(made.bytes)}\n")
    say(f"  {_held(made)}\n")
    complain(_about_key(made))


def restore(
    file: Annotated[Path | None, typer.Argument(help="A copy that 'toolyard backup' made.")] = None,
    settle: Annotated[
        bool,
        typer.Option("--settle", help="The ledger was brought back already, by pg_restore or so."),
    ] = False,
    revoke_keys: Annotated[
        bool, typer.Option("--revoke-keys", help="Revoke every API key in it: some may have been revoked since.")
    ] = False,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Also a bare ledger whose -wal is missing: go on with what is there.")
    ] = False,
    without_key: Annotated[
        bool, typer.Option("--without-key", help="Also where the copy's key is lost, and with it what was sealed.")
    ] = False,
    store: Store = None,
    json: Json = False,
) -> None:
    """Go back to a copy of the ledger, while no server uses it.

    What is there is moved aside, and the copy is not changed. What was done since the copy was made is unknown then,
    and calls that had not ended in it end as outcome_unknown, unless their tools may run again. A ledger in PostgreSQL
    is brought back by the database's own tools, which this names; --settle then does the rest, as it does for any
    ledger that another tool has brought back.
    """
    refuse_servers(None, store, NO_LEDGER)
    settings, options = settings_with(store), RestoreOptions(revoke_keys, incomplete, without_key)
    if (file is None) is not settle:
        raise SetupError("name a copy, or say --settle for a ledger that was brought back already")
    with complaints():
        done = settled_by(settings, options) if file is None else restored_by(settings, file, options)
    if json:
        say(pretty(_fields(done)))
        return
    say("".join(f"{line}\n" for line in _done(done)))
    complain(_unknown(done, again=str(file or "--settle")))


def _done(done: Restored) -> list[str]:
    about = "" if done.is_exact else ", as far as its rows tell"
    lines = [f"{done.ledger} is as it was at {_moment(done.made_at)}{about}", f"  {_held(done)}"]
    if done.aside is not None:
        lines.append(f"What was there is in {done.aside}")
    if done.key_file is not None:
        lines.append(f"The key file {done.key_file} is the copy's")
    if done.key_aside is not None:
        lines.append(f"The one that was there is {done.key_aside}")
    return lines + _settled(done)


def _settled(done: Restored) -> list[str]:
    """What became of the calls and the keys in the copy."""
    unknown, going_on = done.calls.unknown, done.calls.going_on
    lines = ["Nothing in it had yet to end"] if unknown + going_on == 0 else []
    if unknown:
        lines.append(
            f"{_calls(unknown)} had not ended, and may have since: outcome_unknown now, for somebody to find out and "
            "'toolyard resolve'"
        )
    if going_on:
        lines.append(f"{_calls(going_on)} had not ended, and will go on: their tools may run again")
    if done.revoked:
        lines.append(f"{done.revoked} API key{' is' if done.revoked == 1 else 's are'} revoked")
    return lines


def _unknown(done: Restored, again: str) -> str:
    """What an operator has to know before a server starts. `again` is how to restore the same once more."""
    said = (
        "Unknown from now on is what was done since the copy was made: API keys that were made, approvals that were "
        "given, call ids that were taken; such a call runs again if it is sent again. Calls that were erased since are "
        "there again: erase them again\n"
    )
    if done.holdings.api_keys:
        said += (
            "API keys that were revoked since are good again: revoke them, or all of them with "
            f"'toolyard restore {again} --revoke-keys'\n"
        )
    return said


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _about_key(made: Backup) -> str:
    match made.key:
        case KeyPlace.INSIDE:
            return f"The key file {made.key_file} is in it: whoever has this copy can read every secret in it\n"
        case KeyPlace.FILE:
            return (
                f"The key file {made.key_file} is not in it, and without that nobody reads the secrets in it and no "
                "server starts on it: keep a copy of it elsewhere, or say --with-key\n"
            )
        case KeyPlace.SETTING:
            return "The key is the setting secret_key and not in it: without it nobody reads the secrets in this copy\n"
    if made.holdings.sealed or made.holdings.audit_entries:
        return f"The key file {made.key_file} is missing: without it nobody reads the secrets in this copy\n"
    return "There is no key file yet, and nothing in it needs one\n"


def _held(what: Backup | Restored) -> str:
    holdings = what.holdings
    return (
        f"calls {holdings.calls}, taken call ids {holdings.call_ids}, API keys {holdings.api_keys} and "
        f"{holdings.revoked_keys} revoked, sessions {holdings.sessions}, secrets and accounts {holdings.sealed}, "
        f"audit entries {holdings.audit_entries}"
    )


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _size(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 10_000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"


def _fields(made: Struct) -> dict[str, Any]:
    """As JSON has it, in the spelling of every other verb."""
    given = {_camel(name): value for name, value in msgspec.structs.asdict(made).items() if value is not None}
    fields = {name: _fields(value) if isinstance(value, Struct) else value for name, value in given.items()}
    built: dict[str, Any] = msgspec.to_builtins(fields, enc_hook=str)
    return built


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
