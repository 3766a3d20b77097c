"""`toolyard audit`: an operator reads the audit log (`tail`), checks that nobody changed it (`verify`), and takes its
entries or the heads of its chains elsewhere (`export`)."""

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ...model.caller import LOCAL, caller_name
from ...model.errors import SetupError, SourcePlace
from ...operator.client import AuditClient, Head, heads_in
from ...text.hidden import in_one_line
from ..support.ledger import WHERE, OperatedServer, Store, transport_to_read
from ..support.options import seconds_in, whole
from ..support.screen import complain, complaints, in_json, say
from ..support.target import Json

LOOK_AGAIN_S = 0.5
NO_LEDGER = f"there is no ledger here; {WHERE}"
audit = typer.Typer(no_args_is_help=True, help="Read the audit log, check it, export it.")


@audit.command()
def tail(
    number: Annotated[int, typer.Option("-n", parser=whole("-n", 1, 10_000), metavar="NUMBER", help="How many.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with those that come, until Ctrl-C.")] = False,
    server: OperatedServer = None,
    store: Store = None,
    json: Json = False,
) -> None:
    """Show the newest entries."""
    with complaints(), find_auditor(server, store) as auditor:
        seen = {head["chain"]: head["number"] for head in auditor.heads()}
        _print(auditor.newest(number), json)
        try:
            while follow:
                time.sleep(LOOK_AGAIN_S)
                _print(_news(auditor, seen), json)
        except KeyboardInterrupt:
            return


@audit.command()
def verify(
    heads: Annotated[Path | None, typer.Option(help="Heads that were exported, to be found again.")] = None,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Check that nobody changed, removed or moved anything. Exit code 1 where somebody did."""
    known = [] if heads is None else _heads(heads)
    wrong = False
    with complaints(), find_auditor(server, store) as auditor:
        names = {chain["name"] for chain in auditor.chains()} | {head.chain for head in known}
        for name in sorted(names):
            checked = auditor.verify(name, [head for head in known if head.chain == name])
            if checked.wrong is not None:
                complain(f"{checked.wrong}\n")
                wrong = True
            else:
                say(f"{name}: whole, {checked.place.count} entries up to block {checked.place.number}\n")
    if not names:
        say("The audit log is empty\n")
    if wrong:
        raise typer.Exit(1)


@audit.command()
def export(
    since: Annotated[str, typer.Option(help="How far back, such as 1d, 12h or 10m.")] = "1d",
    until: Annotated[str | None, typer.Option(help="Only what is older than this.")] = None,
    heads: Annotated[bool, typer.Option("--heads", help="The heads of all chains, and no entries.")] = False,
    server: OperatedServer = None,
    store: Store = None,
) -> None:
    """Print entries as lines of JSON, or the chains' heads.

    Entries come chain by chain. Heads are for a later 'toolyard audit verify --heads'.
    """
    now, since_s = time.time(), seconds_in(since, "--since")
    until_s = 0.0 if until is None else seconds_in(until, "--until")
    if until_s >= since_s:
        raise SetupError(
            f"there is nothing between --since {since} and --until {until}: --until must be the shorter one"
        )
    first, last = now - since_s, now - until_s
    with complaints(), find_auditor(server, store) as auditor:
        found = auditor.heads()
        if heads:
            _print(found, json=True)
            return
        for head in found:
            entries = auditor.entries(head["chain"], since=first) if head["at"] >= first else ()
            _print((entry for entry in entries if first <= entry.get("at", last) <= last), json=True)


def find_auditor(server: str | None, store: str | None) -> AuditClient:
    """Raises SetupError where there is no ledger."""
    transport = transport_to_read(server, store)
    if transport is None:
        raise SetupError(NO_LEDGER if store is None else f"there is no ledger at {store}")
    return AuditClient(transport)


def _news(auditor: AuditClient, seen: dict[str, int]) -> list[dict[str, Any]]:
    """The entries that came to any chain since it was looked at. `seen` has the last block of each chain, and is
    brought up to date."""
    news: list[dict[str, Any]] = []
    for head in auditor.heads():
        after = seen.get(head["chain"], 0)
        if head["number"] > after:
            news += auditor.entries(head["chain"], after)
            seen[head["chain"]] = max([head["number"], *(entry["block"] for entry in news[-1:])])
    return sorted(news, key=lambda entry: entry.get("at", 0.0))


def _print(rows: Iterable[dict[str, Any]], json: bool) -> None:
    for row in rows:
        say(in_json(row) if json else _line(row))
    sys.stdout.flush()


def _line(entry: dict[str, Any]) -> str:
    """An entry in one line, for people."""
    at = datetime.fromtimestamp(entry.get("at", 0.0), UTC).strftime("%Y-%m-%d %H:%M:%S")
    return in_one_line("  ".join([at, *_cells(entry)])) + "\n"


def _cells(entry: dict[str, Any]) -> Iterator[str]:
    """What happened, who did it and for whom, from where, with which tool, by which rule, and how it ended. For a
    decision also which call it was about."""
    yield str(entry.get("kind", ""))
    who = entry.get("by", entry.get("sub"))
    if who is not None:
        named = caller_name(str(entry.get("tenant", LOCAL.tenant)), str(who))
        yield f"{named} for {entry['user']}" if "user" in entry else named
    yield from (str(entry[name]) for name in ("key", "from", "tool") if name in entry)
    if "asked_by" in entry:
        yield f"call {entry.get('call')} of {entry['asked_by']}"
    yield from (str(entry[name]) for name in ("rule", "code", "reason") if name in entry)
    if "n" in entry:
        yield f"{entry['n']} entries"


def _heads(path: Path) -> list[Head]:
    """Heads that `export --heads` wrote to a file. Raises SetupError."""
    try:
        if not (found := heads_in(path.read_bytes())):
            raise ValueError("there are none in it")
        return found
    except OSError as error:
        raise SetupError(f"the heads cannot be read: {error.strerror}", SourcePlace(str(path))) from None
    except ValueError as error:
        raise SetupError(f"these are not heads that were exported: {error}", SourcePlace(str(path))) from None
