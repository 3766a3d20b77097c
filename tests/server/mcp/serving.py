"""Real servers of the tools, which can be killed and started again."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from ... import warm
from ...conformance.serving import POLL_S, command, environment, free_port, wait_until_healthy
from .stage import Stage

TOOLS = f"{Path(__file__).with_name('tools.py')}:app"
DEADLINE_S = 20.0
SECRET = "5" * 64
ALICE, BOB = "ty_alice_0123456789abcdef", "ty_bob_0123456789abcdef"


class Server:
    """In a folder, with these settings (`sync_wait_s="1"`)."""

    def __init__(self, folder: Path, stage: Stage, settings: dict[str, str], tools: str) -> None:
        self.folder, self.port, self._tools = folder, free_port(), tools
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.root = f"http://127.0.0.1:{self.port}"
        given = {f"TOOLYARD_{name.upper()}": value for name, value in settings.items()}
        self._variables = environment("open") | {"STAGE": str(stage.port)} | given
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self.folder / f"server-{self.port}.log"
        arguments = command(self._tools, "--port", str(self.port), "--log-level", "warning")
        with log.open("ab") as output:
            self.process = warm.start(arguments, cwd=self.folder, env=self._variables, stdout=output, stderr=output)
        wait_until_healthy(self.process, self.port, log)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Returns when nobody may wait on it any more, or it takes no connections."""
        assert self.process is not None
        self.process.terminate()
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            try:
                with urlopen(f"{self.root}/v1/tools/requests?wait=0.001"):
                    time.sleep(POLL_S)
            except OSError:  # a refusal is one, too
                return
        raise AssertionError("it still lets clients wait")

    def wait(self) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(DEADLINE_S)

    def restart(self) -> None:
        self.kill()
        self.start()

    def end(self) -> None:
        """Whatever still runs on it."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def said(self) -> str:
        return (self.folder / f"server-{self.port}.log").read_text()


Start = Callable[..., Server]


@contextmanager
def starting(folder: Path, stage: Stage, tools: str = TOOLS) -> Iterator[Start]:
    """Starts servers of these tools, and ends them afterwards."""
    made: list[Server] = []

    def start(**settings: str) -> Server:
        server = Server(folder, stage, settings, tools)
        made.append(server)
        server.start()
        return server

    try:
        yield start
    finally:
        for server in made:
            server.end()
