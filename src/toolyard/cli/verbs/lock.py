"""`toolyard lock`: an operator writes down the tools as they are now, or checks them against what was written down."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ...model.errors import SetupError
from ...model.lock.changes import KINDS
from ...model.lock.lock import Lock, LockDifference, differences
from ...operator.lock import to_be_locked, tools_at, tools_of_upstreams, tools_of_workers
from ...operator.reach import reach
from ...operator.upstreams import ListedTools
from ...server.settings.table import LOCK_FILE, Settings, load_settings
from ...server.tool_lock import read_lock, write_lock
from ..support.ledger import OperatedServer, named_server, server_operated
from ..support.screen import complain, complaints, say
from ..support.upstream_flag import UpstreamFlag, upstream_tables


def lock(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|MODULE]...",
            help="What to lock: tools.py, package.module, either with :name, mcp.json, or a worker's offer.json.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what differs from the lock, and exit with 1 if it does.")
    ] = False,
    workers: Annotated[
        bool, typer.Option("--workers", help="Also what workers offer now, asked of the server or its ledger.")
    ] = False,
    upstream: UpstreamFlag = None,
    lock_file: Annotated[str | None, typer.Option(help="The lock (tools.lock).")] = None,
    server: OperatedServer = None,
    store: Annotated[str | None, typer.Option(help="The ledger that knows the workers (sqlite:toolyard.db).")] = None,
    config: Annotated[str | None, typer.Option(help="The settings file (toolyard.toml).")] = None,
) -> None:
    """Write down the tools as they are, so that changes are seen.

    A server that finds a lock serves no tool that differs from it. Each difference is breaking (a call that was right
    may fail now), additive, or wording (what people and models read).

    The upstreams of the settings are connected to, and their tools locked as they list them now. What one had that
    cannot be reached stays in the lock; --check then ends with 1, since nobody knows.
    """
    given: dict[str, Any] = {"tools": targets or None, "lock_file": lock_file, "store": store}
    given |= {"upstreams": upstream_tables(upstream) or None}
    settings = load_settings({name: value for name, value in given.items() if value is not None}, config=config)
    path = Path(settings.lock_file or LOCK_FILE)
    if not settings.tools and not workers and not settings.upstreams:
        raise SetupError("say what to lock: toolyard lock tools.py, or toolyard lock --workers")
    before = read_lock(path) if check or path.exists() else {}
    with complaints():
        upstreams = tools_of_upstreams(settings)
        found = _found(before, settings, workers, server_operated(server, store), upstreams)
    unheard = [each for each in upstreams if each.listing is None]
    for each in unheard:
        complain(f"{each.upstream.name} {each.trouble}\n")
    different = differences(before, found.values())
    if check:
        _checked(different, path, len(found), [each.upstream.name for each in unheard])
    else:
        write_lock(path, found.values())
        names = ", ".join(each.upstream.name for each in unheard)
        stays = f"; of {names} as it was locked before" if unheard else ""
        say(_in_words(different) + f"{path} has {_count(len(found), 'tool')}{stays}.\n")


def _found(
    before: Lock, settings: Settings, workers: bool, elsewhere: str | None, upstreams: Sequence[ListedTools]
) -> Lock:
    own = tools_at(settings.tools) if settings.tools else None
    if not workers:
        return to_be_locked(before, own, None, upstreams)
    transport = reach(settings) if elsewhere is None else named_server(elsewhere)
    return to_be_locked(before, own, tools_of_workers(transport), upstreams)


def _checked(different: Sequence[LockDifference], path: Path, count: int, unheard: Sequence[str]) -> None:
    if not different and not unheard:
        say(f"{path}: {_count(count, 'tool')}, as locked.\n")
        return
    if not different:
        say(f"{path}: nothing differs, but nothing is known of {', '.join(unheard)}.\n")
        raise typer.Exit(1)
    kinds = Counter(change.kind for each in different for change in each.changes)
    summary = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    say(_in_words(different) + f"{path}: {summary}. To approve that, run toolyard lock.\n")
    raise typer.Exit(1)


def _in_words(different: Sequence[LockDifference]) -> str:
    return "".join(f"{each}\n" for each in different)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
