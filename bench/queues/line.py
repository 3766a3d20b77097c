"""What a queue under measurement is told, line by line: `enqueue` so many jobs, or `work` until they are done. It
answers each with the seconds that took. It runs in the Python of whoever is measured, so it needs nothing but that.

A queue says how many jobs it has done, so that none is counted that was not.
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable

Do = Callable[[dict[str, int]], Awaitable[int]]


async def follow(enqueue: Do, work: Do) -> None:
    """Until there are no more lines. `jobs` says how many; whatever else is given is the queue's own affair."""
    doing = {"enqueue": enqueue, "work": work}
    say({"ready": True})
    for line in sys.stdin:
        told = json.loads(line)
        began = time.perf_counter()
        done = await doing[told.pop("do")](told)
        took = time.perf_counter() - began
        say({"seconds": took} if done == told["jobs"] else {"error": f"{done} of {told['jobs']} jobs were done"})


def say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
