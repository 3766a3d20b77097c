"""Runs a yard for one MCP client, over standard input and output."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from ..model.errors import SetupError
from ..model.running import Source
from ..store.contract import StoreInUse
from .compose import Yard
from .mcp.stdio import StdioServer
from .settings import Settings

MOST_SLOTS = 1000


def serve(sources: list[Source], settings: Settings, output: BinaryIO) -> None:
    """Until the input ends, or somebody stops it. Raises SetupError."""
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(_serve(sources, settings, output))


async def _serve(sources: list[Source], settings: Settings, output: BinaryIO) -> None:
    yard = await _started(sources, settings)
    serving = asyncio.ensure_future(StdioServer(yard.mcp, yard.store.cancel, output).serve(sys.stdin.fileno()))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        await serving
    finally:
        await yard.stop()


async def _started(sources: list[Source], settings: Settings) -> Yard:
    """On the ledger that the settings name, or on the first of the user's own that nobody has."""
    if settings.store != Settings().store:
        yard = Yard(sources, settings)
        await yard.start()
        return yard
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for slot in range(MOST_SLOTS):
        yard = Yard(sources, replace(settings, store=f"sqlite:{folder / f'stdio-{slot}.db'}"))
        try:
            await yard.start()
        except StoreInUse:
            continue
        return yard
    raise SetupError(f"all {MOST_SLOTS} ledgers in {folder} are in use; name another with --store sqlite:FILE")


def state_folder() -> Path:
    """Where this user's programs keep what they must remember."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "toolyard"
