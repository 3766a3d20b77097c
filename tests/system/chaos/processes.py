"""Nodes and workers: real processes that are killed, paused, told to leave, and started again; each by its own id."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...cli.processes import command
from ...conformance.serving import environment, free_port, is_healthy

TOOLS = str(Path(__file__).with_name("tools.py"))
ROOT = Path(__file__).parents[3]
CALLERS = {"alice": "ty_alice-0123456789abcdef", "bob": "ty_bob-0123456789abcdef"}
WORKER_KEY = "ty_worker-0123456789abcdef"
LEASE_S = 1.0
SETTINGS = {
    "TOOLYARD_API_KEYS": ",".join(f"{name}:{key}" for name, key in (*CALLERS.items(), ("worker", WORKER_KEY))),
    "TOOLYARD_SECRET_KEY": "5f" * 32,
    "TOOLYARD_LEASE_S": f"{LEASE_S:g}",
    "TOOLYARD_MAX_ATTEMPTS": "5",
    "TOOLYARD_SYNC_WAIT_S": "1",
    "TOOLYARD_CALL_TIMEOUT_S": "10",
    "TOOLYARD_CLAIM_WAIT_S": "20",
    "TOOLYARD_TOTAL_TIMEOUT_S": "30",
    "TOOLYARD_GRACE_S": "5",
}
TOTAL_S = 30.0
START_S, LEAVE_S = 60.0, 15.0


class Process:
    """One that is started again and again. `name` and the number of its start tell its runs apart."""

    def __init__(self, name: str, folder: Path, variables: Mapping[str, str]) -> None:
        self.name, self._folder, self._log = name, folder, folder / f"{name}.log"
        self._variables = environment("open") | {"PYTHONPATH": _path()} | dict(variables)
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.is_in_trouble = False
        """Whether somebody is at it now."""

    def arguments(self) -> Sequence[str]:
        raise NotImplementedError

    def is_up(self) -> bool:
        raise NotImplementedError

    async def start(self) -> None:
        """Until it is up; one that leaves by itself, because its ledger is not there, is started again."""
        try:
            async with asyncio.timeout(START_S):
                while not await self._starts_up():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise RuntimeError(f"{self.name} did not start: {self._log.read_text()[-2000:]}") from None

    async def _starts_up(self) -> bool:
        self._spawn()
        while self.is_running:
            if await asyncio.to_thread(self.is_up):
                return True
            await asyncio.sleep(0.05)
        return False

    @property
    def run_name(self) -> str:
        """Of this one of its runs."""
        return f"{self.name}.{self._starts}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Also one that is paused."""
        if self._process is not None and self.is_running:
            self._process.kill()
            self._process.wait()

    def tell(self, number: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            self._process.send_signal(number)

    async def leave(self) -> None:
        """In good order, if it does so in time."""
        self.tell(signal.SIGTERM)
        try:
            async with asyncio.timeout(LEAVE_S):
                while self.is_running:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.kill()

    def _spawn(self) -> None:
        self._starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command(*self.arguments()),
                cwd=self._folder,
                env=self._variables | {"CHAOS_PROCESS": self.run_name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


class NodeProcess(Process):
    def __init__(self, name: str, folder: Path, store: str, effects: Path) -> None:
        super().__init__(name, folder, {**SETTINGS, "TOOLYARD_STORE": store, "CHAOS_EFFECTS": str(effects)})
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def arguments(self) -> Sequence[str]:
        return "serve", f"{TOOLS}:here", "--port", str(self.port)

    def is_up(self) -> bool:
        return is_healthy(self.port)


class WorkerProcess(Process):
    def __init__(self, name: str, folder: Path, node: NodeProcess, effects: Path) -> None:
        super().__init__(name, folder, {"TOOLYARD_KEY": WORKER_KEY, "CHAOS_EFFECTS": str(effects)})
        self._url = node.url

    def arguments(self) -> Sequence[str]:
        return "worker", f"{TOOLS}:away", "--server", self._url, "--name", self.run_name, "--grace", "1"

    def is_up(self) -> bool:
        """It says so, once its server knows it."""
        return f"worker {self.run_name} offers" in self._log.read_text()


@contextmanager
def ended_at_last(processes: Sequence[Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _path() -> str:
    """So that a tool's process finds the tests, and the toolyard that is under test."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
