"""Who is measured: the floor, toolyard, and its peers, each with its own way to be started and called.

A peer lives in a virtual environment of its own, made on first use: what peers depend on must not mix. One
that cannot be installed is left out by name; nothing stands in for it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.servers import Contender, Exchange, ServerError

HERE = Path(__file__).resolve().parent
VENVS = HERE / ".venvs"
MANY = 1000
INSTALL_TIMEOUT_S = 600
SERVER = ("uvicorn", "uvloop", "httptools")


def post(path: str, body: object, is_right: Callable[[Any], bool]) -> Exchange:
    return Exchange("POST", path, json.dumps(body, separators=(",", ":")).encode(), is_right)


def flat(tool_id: str) -> Exchange:
    body = {"tool_id": tool_id, "input": {"a": 10, "b": 5}}
    return post("/tools/call", body, lambda reply: bool(reply["success"] and reply["value"] == 15))


def keyed(tool_id: str) -> Exchange:
    """With a key of its own for each request."""
    body = {"call_id": "@@N@@", "tool_id": tool_id, "input": {"a": 10, "b": 5}}
    return post("/tools/call", body, lambda reply: bool(reply["success"] and reply["value"] == 15))


def enveloped(tool_id: str) -> Exchange:
    body = {"$schema": "otc://1.0", "request": {"tool_id": tool_id, "input": {"a": 10, "b": 5}}}
    return post("/tools/call", body, lambda reply: bool(reply.get("result", reply)["value"] == 15))


LIST = Exchange("GET", "/tools", b"", lambda reply: len(reply["items"]) == MANY)


def bare() -> Contender:
    command = [sys.executable, str(HERE / "bare.py"), "--port"]
    return Contender("load ceiling", lambda port: [*command, str(port)], flat("Bench.Add"))


def floor(*options: str, name: str = "floor") -> Contender:
    command = [sys.executable, str(HERE / "floor.py"), *options, "--port"]
    return Contender(name, lambda port: [*command, str(port)], flat("Bench.Add"))


def toolyard(
    tools: str = "add.py",
    tool_id: str = "Bench.Add",
    name: str = "toolyard",
    *,
    settings: str | None = "unrecorded.toml",
    store: str | None = None,
    processes: int = 1,
) -> Contender:
    """Ledger and audit off, unless other settings are named; without any it is as it is served by default."""
    command = [sys.executable, "-m", "toolyard", "serve", str(HERE / "tools" / tools)]
    if settings:
        command += ["--config", str(HERE / "tools" / settings)]
    if store:
        command += ["--store", store]
    if processes > 1:
        command += ["--processes", str(processes)]
    command += ["--log-level", "warning", "--port"]
    return Contender(name, lambda port: [*command, str(port)], flat(tool_id))


def toolyard_of_many(name: str = "toolyard") -> Contender:
    return toolyard("many.py", "Bench.Tool0500", name)


@dataclass(frozen=True)
class Installed:
    """Somebody with a virtual environment of its own."""

    name: str
    script: str
    requirements: tuple[str, ...]

    @property
    def python(self) -> Path:
        return VENVS / self.name / "bin" / "python"

    @property
    def packages(self) -> tuple[str, ...]:
        return self.requirements


@dataclass(frozen=True)
class Peer(Installed):
    call: Exchange
    list_path: str | None

    @property
    def packages(self) -> tuple[str, ...]:
        return self.requirements + SERVER

    @property
    def listing(self) -> Exchange:
        return Exchange("GET", self.list_path or "", b"", lambda reply: len(reply) == MANY)

    def contender(self, tools: int = 1) -> Contender:
        command = [str(self.python), str(HERE / "peers" / self.script)]
        return Contender(self.name, lambda port: [*command, str(port), str(tools)], self.call)


def install(peer: Installed) -> None:
    wanted = "\n".join(peer.packages)
    stamp = VENVS / peer.name / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {peer.name} …", flush=True)
    pip = [str(peer.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for step in ([sys.executable, "-m", "venv", str(VENVS / peer.name)], [*pip, *peer.packages]):
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ServerError(f"{peer.name} could not be installed in {INSTALL_TIMEOUT_S} s") from None
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise ServerError(f"{peer.name} could not be installed: {errors[-1] if errors else 'pip failed'}")
    stamp.write_text(wanted)


def versions(python: Path | str, packages: tuple[str, ...]) -> dict[str, str]:
    """What is installed there, asked of that Python itself."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "found = {d.name.lower().replace('_', '-'): d.version for d in m.distributions()}\n"
        "print(json.dumps({p: found[p] for p in sys.argv[1:] if p in found}))"
    )
    names = [package.split("[")[0].split("<")[0].split(">")[0].lower() for package in packages]
    done = subprocess.run([str(python), "-c", code, *names], capture_output=True, text=True, check=True, timeout=30)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def arcade_call() -> Exchange:
    body = {"tool": {"name": "Add", "toolkit": "Bench"}, "inputs": {"a": 10, "b": 5}}
    return post("/worker/tools/invoke", body, lambda reply: bool(reply["output"]["value"] == 15))


PEERS = (
    Peer("fastapi", "fastapi_app.py", ("fastapi", "pydantic"), flat("Bench.Add"), None),
    Peer(
        "arcade",
        "arcade_worker.py",
        ("arcade-serve", "arcade-tdk", "arcade-core"),
        arcade_call(),
        "/worker/tools",
    ),
    Peer(
        "universal-tool-server",
        "universal_tool_server_app.py",
        ("universal-tool-server",),
        enveloped("add"),
        "/tools",
    ),
    # It asks for plain `mcp` of any version but breaks with 2.x and without the extra.
    Peer(
        "langchain-tool-server",
        "langchain_tool_server_app.py",
        ("langchain-tool-server", "mcp[ws]<2"),
        enveloped("add"),
        "/tools",
    ),
)

MCP_PEERS = (
    Installed("mcp-sdk", "mcp_sdk_app.py", ("mcp>=2.3,<3", *SERVER)),
    Installed("fastmcp", "fastmcp_app.py", ("fastmcp>=4,<5", *SERVER)),
)

QUEUES = (
    Installed("pgqueuer", "pgqueuer_queue.py", ("pgqueuer", "asyncpg", "uvloop")),
    Installed("procrastinate", "procrastinate_queue.py", ("procrastinate", "psycopg[binary,pool]", "uvloop")),
)
