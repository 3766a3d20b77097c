"""A worker's life: register, claim as much as there is room for, run it, submit it; and leave in good order.

Claims and submissions are on the event loop, with the tools; the signs of life are not (see `pulse`).
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress

from msgspec import Struct

from ..client.transport import AsyncHttpTransport, HttpTransport
from ..model.errors import ToolyardError
from ..model.run import Runner, Source
from ..runners.attempt import AttemptBounds, recipe_of
from ..runners.core_files import no_core_files
from ..runners.inline import Inline
from ..runners.loader import sources_of as sources_of
from ..runners.processes import Processes
from ..runners.threads import Threads
from ..text.log_scrubbing import scrub_logs
from ..wires.lifecycle.worker_client import decode_taken, encode_drop_worker
from .capacity import POLL_S, Capacity
from .claims import ClaimLoop
from .definitions import definition_of
from .heartbeat import HeartbeatLoop
from .reachability import Reachability
from .runs import Bench, Runs
from .submission import Submission

ANSWER_S = 10.0
"""How long an answer may take that nobody keeps waiting on purpose."""
LAST_CLAIM_S = 0.5
"""How long a claim that is under way may still take when the worker leaves. What it brings is given to nobody else, so
it is not cut off before it has had a chance to arrive."""
GOODBYE_S = 2.0
BOUNDS = AttemptBounds(silent_s=7 * 86400.0, total_s=7 * 86400.0)
"""A tool without a timeout of its own runs for as long as the server lets it."""
_log = logging.getLogger("toolyard.worker")


class Options(Struct, frozen=True):
    """Where a worker works, and how much at once."""

    url: str
    name: str
    key: str | None = None
    concurrency: int = 32
    grace_s: float = 30.0
    ca: str | None = None
    core_files: bool = True
    """Whether a crash may leave one. It is a whole process that would not, so that only its owner can decide."""


class Worker:
    """`live` is its life, on one event loop; `stop` ends it, from any thread or signal handler."""

    def __init__(self, sources: Sequence[Source], options: Options, announce: Callable[[], None]) -> None:
        self._sources, self._options, self._announce = sources, options, announce
        self._tools = [tool for source in sources for tool in source.tools]
        self._connection = Reachability(options.url)
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """No new claims; what runs may end."""
        if self._loop is None:
            self._leaving.set()  # it has not begun
        else:
            self._loop.call_soon_threadsafe(self._leaving.set)

    async def live(self) -> None:
        """Until `stop`, or until the server will not have it: then raises why."""
        scrub_logs()
        if not self._options.core_files:
            no_core_files()
        self._loop, name = asyncio.get_running_loop(), self._options.name
        async with AsyncExitStack() as stack:
            bench = await self._bench(stack)
            pulse, room = self._pulse(stack), Capacity(self._tools, self._options.concurrency)
            answers, claims = self._sending(stack, ANSWER_S), self._sending(stack, POLL_S + ANSWER_S)
            submitting = Submission(answers, name, pulse, self._connection)
            runs = Runs(bench, room, pulse, submitting)
            refused = asyncio.wrap_future(pulse.refused)
            refused.add_done_callback(lambda _: self._leaving.set())
            pulse.start()
            if await self._wait_for_registration(pulse):
                self._announce()
                await self._claim(ClaimLoop(claims, name, room, runs, pulse, self._connection))
                left = await runs.drain(self._options.grace_s)
                _log.info("%s leaves: %s done, %d stopped", name, _calls(runs.done), left)
            pulse.stop()
            with suppress(ToolyardError, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    decode_taken(await answers.send(encode_drop_worker(name)))
            if refused.done():
                raise refused.result()

    async def _wait_for_registration(self, pulse: HeartbeatLoop) -> bool:
        """Waits for it; False where the worker leaves before."""
        registered, leaving = asyncio.wrap_future(pulse.registered), asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait((registered, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        return registered.done()

    async def _claim(self, claiming: ClaimLoop) -> None:
        task = asyncio.ensure_future(claiming.until(self._leaving))
        task.add_done_callback(lambda _: self._leaving.set())
        await self._leaving.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_CLAIM_S):
                await task
        _log.info("%s takes no more calls", self._options.name)

    async def _bench(self, stack: AsyncExitStack) -> Bench:
        """Everything a run needs, and closes it again."""
        resources = {source.host: await stack.enter_async_context(source.running()) for source in self._sources}
        threads, processes = Threads(self._options.concurrency), Processes(os.cpu_count() or 1)
        stack.push_async_callback(threads.close)
        stack.push_async_callback(processes.close)
        runners: dict[str, Runner] = {"inline": Inline(), "thread": threads, "process": processes}
        tools = {tool.reference: (tool, recipe_of(tool, runners[tool.runs], BOUNDS)) for tool in self._tools}
        return Bench(tools, resources)

    def _pulse(self, stack: AsyncExitStack) -> HeartbeatLoop:
        sending = HttpTransport(self._options.url, self._options.key, ANSWER_S, ca=self._options.ca)
        stack.callback(sending.close)
        return HeartbeatLoop(sending, self._options.name, list(map(definition_of, self._tools)), self._connection)

    def _sending(self, stack: AsyncExitStack, timeout_s: float) -> AsyncHttpTransport:
        sending = AsyncHttpTransport(self._options.url, self._options.key, timeout_s, ca=self._options.ca)
        stack.push_async_callback(sending.close)
        return sending


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
