"""Servers that have libraries as their upstreams."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .. import warm
from ..cli.processes import Served, serving
from ..conformance.serving import free_port, stop
from ..server.mcp.schemas import MODERN, REVISIONS
from ..server.mcp.talking import Client, connect
from .waiting import until, until_listening

ROOT = Path(__file__).parents[2]
KINDS = [f"{revision} {kind}" for revision in REVISIONS for kind in ("stdio", "http")]
ABLE: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Behind:
    """A server with upstreams, and what those have noted."""

    def __init__(self, served: Served, notes: Path, revision: str = "", kind: str = "") -> None:
        self.served, self._notes, self.revision, self.kind = served, notes, revision, kind
        self.url = f"{served.address}/mcp"
        self.is_modern = revision == MODERN

    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines()

    def client(self, revision: str = MODERN, key: str | None = None, **capabilities: Any) -> Client:
        return connect(self.url, revision, key, **capabilities)


@contextmanager
def library(folder: Path, notes: Path, revision: str, kind: str) -> Iterator[dict[str, Any]]:
    """What the settings have of a library of this revision, reached by pipes or HTTP."""
    command = [sys.executable, "-m", "tests.upstream.library", revision]
    variables = {"BAZAAR_NOTES": str(notes), "PYTHONPATH": str(ROOT)}
    if kind == "stdio":
        yield {"command": command, "env": variables, "cwd": str(ROOT)}
        return
    port = free_port()
    process = warm.start([*command, str(port)], env={**variables, "PATH": "/usr/bin:/bin"}, cwd=ROOT)
    try:
        until_listening(port)
        yield {"mcp": f"http://127.0.0.1:{port}/mcp"}
    finally:
        stop(process)


@contextmanager
def behind(
    folder: Path, upstreams: list[dict[str, Any]], variables: Mapping[str, str] | None = None, *tools: str
) -> Iterator[Served]:
    given = {"TOOLYARD_UPSTREAMS": json.dumps(upstreams), "TOOLYARD_SYNC_WAIT_S": "20", **(variables or {})}
    with serving(*tools, folder=folder, variables=given) as served:
        yield served


@contextmanager
def with_library(folder: Path, at: str, variables: Mapping[str, str] | None = None, **more: Any) -> Iterator[Behind]:
    """A server with one library, which is called Lib; `at` is its revision and kind."""
    revision, kind = at.split()
    notes = folder / "notes"
    notes.touch()
    with ExitStack() as stack:
        upstream = stack.enter_context(library(folder, notes, revision, kind))
        served = stack.enter_context(behind(folder, [{"name": "Lib", **upstream, **more}], variables))
        made = Behind(served, notes, revision, kind)
        yield made


def until_listed(client: Client, method: str, name: str) -> None:
    member, key = {
        "prompts/list": ("prompts", "name"),
        "resources/list": ("resources", "uri"),
        "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    }[method]
    until(lambda: name in [each[key] for each in listed(client, method, member)])


def listed(client: Client, method: str, member: str) -> list[Any]:
    """All pages; nothing where there is no such list yet."""
    found, cursor = [], None
    while True:
        response = client.request(method, {} if cursor is None else {"cursor": cursor}).response()
        found += response.get("result", {}).get(member, [])
        cursor = response.get("result", {}).get("nextCursor")
        if cursor is None:
            return found


def named(client: Client, method: str, **params: Any) -> Any:
    """A request about something that has a name, which a header repeats in the newer era."""
    name = params.get("name", params.get("uri"))
    headers = {"mcp_name": name} if client.revision == MODERN and isinstance(name, str) else {}
    meta = params.pop("meta", {})
    return client.post(client.made(method, params, **meta), **headers)
