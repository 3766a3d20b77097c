"""Runs a yard for one MCP client, over standard input and output.

The client started this process, and is its only caller; it ends the process by closing the input. The ledger is one of
the user's own, so that two clients that start the same tools do not meet in one file.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from ...model.errors import SetupError
from ...model.run import Source
from ...runners.core_files import no_core_files
from ...store.values import StoreInUse
from ...trust.limits.limits import OVER_PIPES
from ...wires.contract import JSON
from ..http.body import BodyReader
from ..ledger import is_shared
from ..mcp.transports.pipes import InputLines, OutputPipe, Pipes, read_lines
from ..mcp.transports.stdio import StdioServer, Surroundings
from ..settings.table import Settings
from ..sources import upstreams_wanted
from .compose import Listening, Yard, bounds_of
from .shutdown import Shutdown

MOST_SLOTS = 1000
"""How many processes of one user may run at once, each with a ledger of its own."""
NOBODY = (
    "over pipes there is no page for it; serve these tools over HTTP with toolyard serve, or let this process share a "
    "PostgreSQL ledger with a server and set public_url to its address"
)
"""Why nobody can approve a call of this process, and what to do about it."""


def serve(sources: list[Source], settings: Settings, pipes: Pipes) -> None:
    """Serves until the input ends, or somebody stops the process. Raises SetupError."""
    if not settings.core_files:
        no_core_files()
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(sources, settings, pipes))


async def _serve(sources: list[Source], settings: Settings, pipes: Pipes) -> None:
    yard = await _started(sources, settings)
    lines = InputLines(pipes.input)
    around = Surroundings(
        _checked(settings), yard.store.cancel, yard.store.hints.leave, lambda: settings.public_url or "", yard.local()
    )
    serving = asyncio.ensure_future(StdioServer(yard.mcp, around, OutputPipe(pipes.output)).serve(lines))

    def hurry() -> None:
        yard.hurry()
        serving.cancel()

    ending = Shutdown(settings.grace_s, lines.end, hurry)
    ending.at_signals()
    _read(pipes.input, lines, ending, settings.max_body_bytes)
    try:
        await asyncio.wait((serving,))
    finally:
        await yard.stop()
        # All is stored: where a tool's thread holds the process up now, it is ended, and has ended well all the same.
        ending.last_resort.code = 0
    if not serving.cancelled():
        serving.result()


def _read(input: int, lines: InputLines, ending: Shutdown, most: int) -> None:
    """Has a thread read the input's lines; their end asks for the process's."""
    read_lines(input, lambda line: ending.ask() if line is None else lines.put(line), most)


def _checked(settings: Settings) -> Callable[[bytes], None]:
    """Checks a message against the limits that a body over HTTP has."""
    return partial(BodyReader(settings.max_body_bytes, bounds_of(settings)).check, dict((JSON,)))


async def _started(sources: list[Source], settings: Settings) -> Yard:
    """A yard that has started, on the ledger that the settings name, or on the first that the user has for these tools
    and no other process has now. Other tools have others: what one was called for is nothing that another may run."""
    if settings.limits is None:
        settings = replace(settings, limits=list(OVER_PIPES))
    if settings.store != Settings().store:
        yard = Yard(sources, settings, listening=_listening(settings))
        await yard.start()
        return yard
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SetupError(
            f"the ledger's folder {folder} cannot be made ({error.strerror}); name another place with "
            "--store sqlite:FILE, or none with --store sqlite::memory:"
        ) from None
    tools = _digest_of(settings.tools, [each.address for each in upstreams_wanted(settings, sources)])
    for slot in range(MOST_SLOTS):
        own = replace(settings, store=f"sqlite:{folder / f'stdio-{tools}-{slot}.db'}")
        yard = Yard(sources, own, listening=_listening(own))
        try:
            await yard.start()
        except StoreInUse:
            continue
        return yard
    raise SetupError(f"all {MOST_SLOTS} ledgers in {folder} are in use; name another with --store sqlite:FILE")


def _digest_of(targets: Sequence[str], upstreams: Sequence[str]) -> str:
    """Tells the tools of one project from those of another: files by where they are, modules by whose Python has them,
    upstreams by their addresses."""
    named = [str(Path(each).resolve()) if Path(each.partition(":")[0]).exists() else each for each in targets]
    return sha256("\n".join((sys.prefix, *named, *upstreams)).encode(errors="surrogateescape")).hexdigest()[:12]


def _listening(settings: Settings) -> Listening:
    """Pages and approvals are a server's: unless one shares the ledger, nobody could ever say yes."""
    return Listening(nobody_approves="" if settings.public_url and is_shared(settings) else NOBODY)


def state_folder() -> Path:
    """Where this user's programs keep what they must remember, after the XDG Base Directory Specification."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "toolyard"
