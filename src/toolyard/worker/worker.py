"""A worker from start to stop: it registers, claims calls, runs and submits them, and leaves in good order.

Claims and submissions are on the event loop, with the tools; the heartbeats are not (see `heartbeat`).
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress

from msgspec import Struct

from ..client.transport import AsyncHttpTransport, HttpTransport
from ..model.errors import ToolyardError
from ..model.run import Runner, Source, each_once
from ..runners.attempt import AttemptBounds, recipe_of
from ..runners.core_files import no_core_files
from ..runners.inline import Inline
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
"""How long the server may take to answer a request that it does not hold on purpose."""
LAST_CLAIM_S = 0.5
"""How long a claim that is under way may still take when the worker leaves. The calls that it brings are claimed for
this worker already, so it is not cut off at once."""
GOODBYE_S = 2.0
"""How long a leaving worker tries to tell the server so."""
BOUNDS = AttemptBounds(silent_s=7 * 86400.0, total_s=7 * 86400.0)
"""A tool without a timeout of its own runs for as long as the server lets it."""
_log = logging.getLogger("toolyard.worker")


class Options(Struct, frozen=True):
    """The options of a worker: which server it works for, as whom, and how much at once."""

    url: str
    """The server's address."""
    name: str
    """The worker's name, by which the server knows it again: one for each process."""
    key: str | None = None
    """An API key or a token."""
    concurrency: int = 32
    """How many calls to run at once."""
    grace_s: float = 30.0
    """How long running calls have to end when the worker leaves."""
    ca: str | None = None
    """A file of certificate authorities to trust instead of the system's."""
    core_files: bool = True
    """Whether a crash of the process may leave a core file, which could have secrets in it. Only whoever owns the whole
    process can decide that, so it is an option."""


class Worker:
    """Runs tools here for a server elsewhere, as `toolyard worker` does: claims their calls, runs them, submits the
    results. `live` runs it, on one event loop; `stop` ends it, from any thread or signal handler.

    Args:
        sources: Toolkits or apps.
        options: Which server it works for, as whom, and how much at once.
        announce: Called once, when the server has taken the worker.
    """

    def __init__(self, sources: Sequence[Source], options: Options, announce: Callable[[], None]) -> None:
        self._sources, self._options, self._announce = each_once(sources), options, announce
        self._tools = [tool for source in self._sources for tool in source.tools]
        self._reachability = Reachability(options.url)
        self._leaving = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Makes the worker leave: it claims no more calls, and those that run may end, for `Options.grace_s`."""
        if self._loop is None:
            self._leaving.set()  # it has not begun
        else:
            self._loop.call_soon_threadsafe(self._leaving.set)

    async def live(self) -> None:
        """Works until `stop`. A server that does not answer is asked again, for as long as it takes.

        Raises:
            ToolyardError: The server refuses the worker: wrong credentials, or tools that it may not offer.
            SetupError: What the tools share cannot be made.
        """
        scrub_logs()
        if not self._options.core_files:
            no_core_files()
        self._loop, name = asyncio.get_running_loop(), self._options.name
        async with AsyncExitStack() as stack:
            bench = await self._bench(stack)
            heartbeat, capacity = self._open_heartbeat(stack), Capacity(self._tools, self._options.concurrency)
            # Two transports, because a claim is held by the server for POLL_S on purpose.
            answers, claims = self._open_transport(stack, ANSWER_S), self._open_transport(stack, POLL_S + ANSWER_S)
            submission = Submission(answers, name, heartbeat, self._reachability)
            runs = Runs(bench, capacity, heartbeat, submission)
            refused = asyncio.wrap_future(heartbeat.refused)
            refused.add_done_callback(lambda _: self._leaving.set())
            heartbeat.start()
            if await self._wait_for_registration(heartbeat):
                self._announce()
                await self._claim(ClaimLoop(claims, name, capacity, runs, heartbeat, self._reachability))
                left = await runs.drain(self._options.grace_s)
                _log.info("%s leaves: %s done, %d stopped", name, _calls(runs.done), left)
            heartbeat.stop()
            with suppress(ToolyardError, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    decode_taken(await answers.send(encode_drop_worker(name)))
            if refused.done():
                raise refused.result()

    async def _wait_for_registration(self, heartbeat: HeartbeatLoop) -> bool:
        """Waits for the first registration; False where the worker leaves before it."""
        registered, leaving = asyncio.wrap_future(heartbeat.registered), asyncio.ensure_future(self._leaving.wait())
        await asyncio.wait((registered, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        return registered.done()

    async def _claim(self, claims: ClaimLoop) -> None:
        """Claims calls until the worker leaves, and gives the last claim a moment to arrive."""
        task = asyncio.ensure_future(claims.until(self._leaving))
        task.add_done_callback(lambda _: self._leaving.set())
        await self._leaving.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_CLAIM_S):
                await task
        _log.info("%s takes no more calls", self._options.name)

    async def _bench(self, stack: AsyncExitStack) -> Bench:
        """Makes everything that runs need: the apps' resources, the runners, the tools' recipes. `stack` closes it."""
        resources = {source.host: await stack.enter_async_context(source.running()) for source in self._sources}
        threads, processes = Threads(self._options.concurrency), Processes(os.cpu_count() or 1)
        stack.push_async_callback(threads.close)
        stack.push_async_callback(processes.close)
        runners: dict[str, Runner] = {"inline": Inline(), "thread": threads, "process": processes}
        tools = {tool.reference: (tool, recipe_of(tool, runners[tool.runs], BOUNDS)) for tool in self._tools}
        return Bench(tools, resources)

    def _open_heartbeat(self, stack: AsyncExitStack) -> HeartbeatLoop:
        transport = HttpTransport(self._options.url, self._options.key, ANSWER_S, ca=self._options.ca)
        stack.callback(transport.close)
        return HeartbeatLoop(transport, self._options.name, list(map(definition_of, self._tools)), self._reachability)

    def _open_transport(self, stack: AsyncExitStack, timeout_s: float) -> AsyncHttpTransport:
        transport = AsyncHttpTransport(self._options.url, self._options.key, timeout_s, ca=self._options.ca)
        stack.push_async_callback(transport.close)
        return transport


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
