"""`toolyard stdio`, spoken to line by line."""

import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ... import warm
from ...cli.processes import command
from ...conformance.serving import environment
from .schemas import MODERN, check_message
from .serving import TOOLS
from .stage import Stage
from .talking import INFO, PREFIX, decode

DEADLINE_S = 15.0


class Piped:
    """A client of one process, of either era."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, *, is_reading: bool = True) -> None:
        self.process, self.folder = process, folder
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._methods: dict[Any, str] = {}
        self.revision, self.capabilities = MODERN, dict[str, Any]()
        self._last_id = 0
        if is_reading:
            self.read()

    def read(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def initialize(self, revision: str, **capabilities: Any) -> Any:
        self.revision = revision
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": INFO}
        result = self.result("initialize", params)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def write(self, message: Any) -> None:
        """A message, or bytes that are none."""
        assert self.process.stdin is not None
        self.process.stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        self._last_id += 1
        own = {
            PREFIX + "protocolVersion": self.revision,
            PREFIX + "clientInfo": INFO,
            PREFIX + "clientCapabilities": self.capabilities,
        }
        whole = {**(params or {}), "_meta": {**(own if self.revision == MODERN else {}), **meta}}
        self._methods[self._last_id] = method
        self.write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": whole})
        return self._last_id

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> int:
        meta = more.pop("meta", {})
        return self.send("tools/call", {"name": tool, "arguments": arguments or {}, **more}, **meta)

    def hear(self) -> Any:
        """The next message; None at the end."""
        line = self._lines.get(timeout=DEADLINE_S)
        if line is None:
            return None
        message = decode(line)
        if isinstance(message, dict) and ("result" not in message or message["id"] in self._methods):
            check_message(message, self.revision, self._methods.get(message.get("id")))
        return message

    def result(self, method: str, params: dict[str, Any] | None = None) -> Any:
        return self.result_of(self.send(method, params))

    def result_of(self, id: int) -> Any:
        """What else is heard meanwhile is skipped."""
        while (message := self.hear()) is not None:
            if message.get("id") == id and "method" not in message:
                return message["result"]
        raise AssertionError("the process has ended")

    def end(self) -> int:
        """Its exit code, when it hears nothing more."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE_S)

    def errors(self) -> str:
        return (self.folder / "errors.log").read_text()


@contextmanager
def piping(
    folder: Path,
    stage: Stage,
    *,
    tools: str = TOOLS,
    under: Sequence[str] = (),
    is_reading: bool = True,
    **settings: str,
) -> Iterator[Piped]:
    """With these settings (`grace_s="1"`), started by another program if one is given."""
    given = {f"TOOLYARD_{name.upper()}": value for name, value in settings.items()}
    variables = environment("open") | {"STAGE": str(stage.port), "XDG_STATE_HOME": str(folder / "state")} | given
    folder.mkdir(exist_ok=True)
    with (folder / "errors.log").open("wb") as errors:
        process = warm.start(
            [*under, *command("stdio", tools)],
            cwd=folder, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        yield Piped(process, folder, is_reading=is_reading)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
