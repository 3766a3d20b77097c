"""A real server that can be killed and started again, and real workers, in processes of their own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolyard import Client

from .. import warm
from ..cli.processes import DEADLINE_S, READY, Served, send
from ..cli.processes import command as toolyard
from ..conformance.serving import command, environment, free_port, wait_until_healthy
from .stage import Stage

TOOLS = f"{Path(__file__).with_name('tools.py')}:app"
OWN = '''
from toolyard import Toolkit

own = Toolkit("Own", version="1.0.0")


@own.tool
async def here() -> str:
    """Is a tool of the server itself."""
    return "here"
'''


def until(happened: Callable[[], Any]) -> Any:
    """Waits for something that can only be seen by looking: what it gives, once that is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


class Yard:
    """A server in a folder, on a port of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._settings = settings
        self.lease_s = float(settings.get("TOOLYARD_LEASE_S", 30))
        (folder / "own.py").write_text(OWN, encoding="utf-8")

    def start(self) -> None:
        log = self.folder / "server.log"
        arguments = command("own.py", "--port", str(self.port))
        variables = environment("open") | dict(self._settings)
        with log.open("ab") as output:
            self.process = warm.start(arguments, cwd=self.folder, env=variables, stdout=output, stderr=output)
        wait_until_healthy(self.process, self.port, log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def forget(self) -> None:
        """Its whole ledger, while it does not run."""
        for file in self.folder.glob("toolyard.db*"):
            file.unlink()

    def client(self) -> Client:
        return Client(self.url, retries=0)

    @contextmanager
    def calling(self, tool: str, name: str) -> Iterator["Future[Any]"]:
        """A call while the block goes on: what it returns or raises."""

        def call() -> Any:
            with self.client() as client:
                return client.call(tool, {"name": name}, call_id=name)

        pool = ThreadPoolExecutor(1)
        yield pool.submit(call)
        pool.shutdown(wait=False)

    def get(self, path: str) -> Any:
        return send("GET", self.url + path, "", {})

    def post(self, path: str) -> Any:
        return send("POST", self.url + path, "", {})

    def listed(self) -> set[str]:
        return {tool["id"].partition("@")[0] for tool in self.get("/tools")["items"]}

    def states(self) -> list[str]:
        return sorted(call["state"] for call in self.get("/v1/calls")["calls"])

    def last_seen(self) -> float:
        """When the worker of the one call that runs was last heard of, by the server's clock."""
        (request,) = self.get("/v1/tools/requests?state=PROCESSING")["requests"]
        seen: float = request["lastSeen"]
        return seen


@contextmanager
def yard(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Yard]:
    made = Yard(folder, settings or {})
    made.start()
    try:
        yield made
    finally:
        made.kill()


class Working(Served):
    """A running `toolyard worker`."""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def tell(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@contextmanager
def employing(server: Yard, stage: Stage, *arguments: str, tools: str = TOOLS) -> Iterator[Working]:
    """A worker, from its start on."""
    process = warm.start(
        toolyard("worker", tools, "--server", server.url, *arguments),
        cwd=server.folder,
        env=environment("open") | {"PYTHONUNBUFFERED": "1", "STAGE": str(stage.port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    worker = Working(process)
    try:
        yield worker
    finally:
        if process.poll() is None:
            worker.kill()


@contextmanager
def working(server: Yard, stage: Stage, *arguments: str) -> Iterator[Working]:
    """The same, once it is registered."""
    with employing(server, stage, *arguments) as worker:
        worker.hear(READY)
        yield worker
