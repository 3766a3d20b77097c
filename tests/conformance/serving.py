"""Real server processes for the rows: `python -m toolyard serve` on a free port, ended by its process id."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import warm
from .tokens import API_KEY, CALLERS, JWT_SECRET

START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 15.0
POLL_S = 0.02

KEYS = ",".join(f"{name}:{key}" for name, key in CALLERS.items())
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "open": {},
    "keys": {"TOOLYARD_API_KEYS": API_KEY},
    "keys-400": {"TOOLYARD_API_KEYS": API_KEY, "TOOLYARD_AUTH_FAILURE_STATUS": "400"},
    "callers": {"TOOLYARD_API_KEYS": KEYS},
    "hasty": {"TOOLYARD_API_KEYS": KEYS, "TOOLYARD_LEASE_S": "1", "TOOLYARD_MAX_ATTEMPTS": "2"},
    "jwt": {"TOOLYARD_JWT_SECRET": JWT_SECRET},
    "mcp": {"TOOLYARD_API_KEYS": KEYS},
    "mcp-hasty": {
        "TOOLYARD_API_KEYS": KEYS,
        "TOOLYARD_MCP_PAGE_SIZE": "4",
        "TOOLYARD_MCP_STREAM_S": "0.5",
        "TOOLYARD_SYNC_WAIT_S": "0.3",
        "TOOLYARD_QUEUE_WAIT_S": "0.05",
    },
}
MCP_TOOLS = ("toolyard.reference", str(Path(__file__).with_name("mcp_tools.py")))
TOOLS = {"mcp": MCP_TOOLS, "mcp-hasty": MCP_TOOLS}
"""What a server serves, if not the reference toolkits."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(server: str) -> dict[str, str]:
    """This process's environment, with no settings of toolyard but those the server is meant to have, and the name that
    the documents' examples use."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOOLYARD_")}
    return inherited | {"TOOLYARD_ALLOWED_HOSTS": "api.example.com"} | ENVIRONMENTS[server]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "toolyard", "serve", *arguments]


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_until_healthy(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not is_healthy(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start (exit code {process.poll()}): {log.read_text()}")
        time.sleep(POLL_S)


def stop(process: "subprocess.Popen[Any]") -> None:
    process.terminate()
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def running(
    server: str, folder: Path, tools: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A server in a folder of its own, as long as the block lasts; the value is its address. `settings` are more
    variables for its environment."""
    port = free_port()
    log = folder / f"server-{port}.log"
    arguments = command(*(tools or TOOLS.get(server, ())), "--port", str(port), "--log-level", "warning")
    with log.open("wb") as output:
        variables = environment(server) | dict(settings or {})
        process = warm.start(arguments, cwd=folder, env=variables, stdout=output, stderr=output)
    try:
        wait_until_healthy(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)
