"""Tools that leave a mark each time they run, and then wait to be killed."""

import os
import time

from toolyard import Context, Toolkit, secret

kit = Toolkit("Marks", version="1.0.0")


def mark(text: str) -> int:
    """Appends a line, durably, and tells how many there are now."""
    with open(os.environ["MARKS"], "a+") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return len(file.readlines())


@kit.tool
def once(text: str) -> int:
    """Leaves a mark, and stays."""
    count = mark(text)
    time.sleep(600)
    return count


@kit.tool(idempotent=True, requires=secret("KEY"))
def again(text: str, ctx: Context) -> list[str]:
    """Leaves a mark, and stays the first time."""
    count = mark(text)
    if count == 1:
        time.sleep(600)
    return [text, ctx.secret("KEY")]


@kit.tool(idempotent=True)
def poison(text: str) -> None:
    """Leaves a mark, and ends the server."""
    mark(text)
    os.kill(os.getpid(), 9)


@kit.tool
async def quick(text: str) -> int:
    """Leaves a mark."""
    return mark(text)
