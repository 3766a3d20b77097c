"""A real server that can be killed and started again, and calls that are under way meanwhile."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec

from tests import warm
from tests.conformance.serving import command, environment, free_port, wait_until_healthy
from toolyard import Client, ToolyardError

TOOLS = str(Path(__file__).with_name("tools.py"))


class Server:
    """A real one, in a folder, that can be killed and started again."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.port, self.settings = folder, free_port(), settings
        self.marks = folder / "marks"
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = self.folder / "server.log"
        variables = environment("open") | {"MARKS": str(self.marks)} | self.settings
        with log.open("ab") as output:
            self.process = warm.start(
                command(TOOLS, "--port", str(self.port)), cwd=self.folder, env=variables, stdout=output, stderr=output
            )
        wait_until_healthy(self.process, self.port, log)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def marked(self) -> int:
        return len(self.marks.read_text().splitlines()) if self.marks.exists() else 0

    def wait_for_marks(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while self.marked() < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def call(self, call_id: str) -> Any:
        with urlopen(f"{self.url}/v1/calls/{call_id}?wait=20") as reply:
            return msgspec.json.decode(reply.read())


@contextmanager
def calling(server: Server, tool: str, call_id: str, **options: Any) -> Iterator[None]:
    """A call that is under way, and whose connection will break."""

    def call() -> None:
        with Client(server.url, retries=0) as client, suppress(ToolyardError):
            client.call(tool, {"text": call_id}, call_id=call_id, **options)

    caller = threading.Thread(target=call)
    caller.start()
    yield
    caller.join()
