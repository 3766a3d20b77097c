"""A worker's tool that says when it was started, and goes on until it is told to end. Its toolkit is none of the
server's own: a worker may not add to those."""

import asyncio
import os
import time
from pathlib import Path

from toolyard import Toolkit

waiting = Toolkit("Waiting", version="1.0.0", description="A tool that waits.")


@waiting.tool(idempotent=True)
async def wait(folder: str) -> str:
    """Waits until there is a file `go` in the folder."""
    here = Path(folder)
    started = here / f"started-{os.getpid()}"
    started.with_suffix(".new").write_text(repr(time.monotonic()))
    started.with_suffix(".new").rename(started)
    while not (here / "go").exists():
        await asyncio.sleep(0.01)
    return "done"
