"""Fills a ledger by the program of its time, and keeps its rows for the tests.

`python -m tests.system.upgrades.fill` does so for both stores with this program: run it after the last change to a
migration, and keep the two files that it names. `--source FOLDER` runs the program of another checkout instead, as
those of the older files were.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.conformance.serving import free_port, wait_until_healthy
from tests.postgres import OwnServer
from toolyard.store.sql_files import migrations

from .ledgers import About, digest, dump_postgres, dump_sqlite, keep

HERE = Path(__file__).parent
ADA = "ty_ada_0123456789abcdef"
SECRET_KEY = "5e" * 32
SMS_KEY = "sk-91c4e07a"
FOREVER = "999999999"
"""Thirty years: what is kept for the tests must not be too old for them."""
KEPT = ("RETENTION", "KEY_TTL", "CLAIM_WAIT", "TOTAL_TIMEOUT", "AUDIT_RETENTION", "APPROVAL_WAIT")
SETTINGS = {
    "TOOLYARD_API_KEYS": f"ada:{ADA}",
    "TOOLYARD_SECRET_KEY": SECRET_KEY,
    "TOOLYARD_LEASE_S": "2",
    **{f"TOOLYARD_{name}_S": FOREVER for name in KEPT},
}
OFFER = {
    "tools": [
        {
            "id": "Far.Do",
            "version": "1.0.0",
            "description": "Done elsewhere.",
            "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
            "output_schema": {"type": "string"},
            "on_lost": "rerun",
        }
    ]
}
RICH = {"rich": 1, "rich-large": 300_000, "rich-failed": 0}
"""Keys of calls whose result has content beside it, and how long its text is."""
UPSTREAM = ("weather", "digest-of-its-address", b'[{"name":"forecast"}]')
PUT_UPSTREAM = f"""
import asyncio
from toolyard.model.clock import SYSTEM_CLOCK
from toolyard.server.ledger import open_store
from toolyard.server.settings.table import load_settings
from toolyard.store.values import UpstreamRecord

async def put():
    store, _ = open_store(load_settings({{}}), SYSTEM_CLOCK)
    await store.open()
    await store.put_upstream(UpstreamRecord(*{UPSTREAM!r}))
    await store.close()

asyncio.run(put())
"""
"""An upstream that was seen. No verb puts one there."""
OWN_TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "use-1", "name": "look", "input": {"at": "it"}}]}


class Answer(Exception):
    """What a server refuses with."""


def ask(url: str, method: str, path: str, body: object = None, key: str = ADA, **headers: str) -> Any:
    """One request, as any program could make it; the answer's body."""
    sent = {"content-type": "application/json", "authorization": f"Bearer {key}", **headers}
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urlopen(Request(url + path, data, sent, method=method), timeout=30) as reply:
            said = reply.read()
    except HTTPError as error:
        with error:
            raise Answer(error.code, error.read()) from None
    return json.loads(said) if said else None


def call(url: str, tool: str, call_id: str | None = None, key: str = ADA, **input: object) -> Any:
    body = {"tool_id": tool, "input": input} | ({"call_id": call_id} if call_id else {})
    return ask(url, "POST", "/tools/call", body, key)


def call_over_mcp(url: str, tool: str, call_id: str, **arguments: object) -> Any:
    """The result of a call in MCP's newest revision."""
    prefix, revision = "io.modelcontextprotocol/", "2026-07-28"
    meta = {f"{prefix}protocolVersion": revision, f"{prefix}clientCapabilities": {}, "toolyard/callId": call_id}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"mcp-protocol-version": revision, "mcp-method": "tools/call", "mcp-name": tool}
    accept = {"accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return ask(url, "POST", "/mcp", body, **headers, **accept)["result"]


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


class Program:
    """The one that fills a ledger: in a folder, with the tools of its time."""

    def __init__(self, source: Path, folder: Path, store: str) -> None:
        self._source, self._folder = source, folder
        self._sql = source / "toolyard/store/sql"
        self._newest = {path.name[4:-4] for path in self._sql.glob(f"{store.split(':')[0][:8]}*/0*.sql")}
        own = {name: value for name, value in os.environ.items() if not name.startswith("TOOLYARD_")}
        self._environment = own | {"PYTHONPATH": str(source), "YARD_PROGRAM": "before"}
        known = self.verb("settings")
        self._environment |= {name: value for name, value in SETTINGS.items() if f"({name})" in known}
        self._environment |= {"TOOLYARD_STORE": store}
        self.url = ""

    def knows(self, migration: str) -> bool:
        return migration in self._newest

    def start(self) -> None:
        port, log = free_port(), self._folder / "log"
        tools = ["tools.py", *(["held_tools.py"] if self.knows("vault") else [])]
        tools += ["rich_tools.py:app"] if self.knows("extras") else []
        command = [sys.executable, "-m", "toolyard", "serve", *(str(HERE / tool) for tool in tools)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--port", str(port)], cwd=self._folder, env=self._environment, stdout=output, stderr=output
            )
        wait_until_healthy(self._process, port, log)
        self.url = f"http://127.0.0.1:{port}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def verb(self, *arguments: str, input: str = "") -> str:
        return self.run("-m", "toolyard", *arguments, input=input)

    def run(self, *arguments: str, input: str = "") -> str:
        """In an interpreter that has the program."""
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, input=input, capture_output=True, text=True, check=True
        )
        return done.stdout

    def begin(self, tool: str, call_id: str, **input: Any) -> None:
        """A call that does not end: its connection breaks when the program is killed."""

        def wait() -> None:
            with suppress(OSError, Answer, ValueError):
                call(self.url, tool, call_id, **input)

        threading.Thread(target=wait, daemon=True).start()

    def is_waiting(self, call_id: str) -> bool:
        with suppress(Answer):
            return bool(ask(self.url, "GET", f"/v1/calls/{call_id}")["state"] == "PENDING")
        return False

    def has_mark(self, mark: str) -> bool:
        return (self._folder / f"{mark}.before").exists()


def fill(program: Program, about: About) -> None:
    """Puts in one of each thing that the program knows how to keep, and kills it."""
    holds = about.holds
    if program.knows("keys"):
        about.api_key = made_key(program.verb("keys", "new", "bob"))
        about.revoked_key = made_key(program.verb("keys", "new", "eve"))
        program.verb(
            "keys", "revoke", "eve", *(["--yes"] if "--yes" in program.verb("keys", "revoke", "--help") else [])
        )
        holds.append("keys")
    if program.knows("vault"):
        program.verb("secrets", "set", "SMS_KEY", input=SMS_KEY)
    if program.knows("extras"):
        program.run("-c", PUT_UPSTREAM)
    program.start()
    if program.knows("vault"):
        call(program.url, "Held.Send", "sent")
        program.begin("Held.Pay", "paid", cents=5)
        until(lambda: program.is_waiting("paid"))
        holds += ["secrets", "approvals"]
    call(program.url, "Yard.Stamp", "done", text="keyed")
    call(program.url, "Yard.Large", "large")
    call(program.url, "Yard.Fail", "failed")
    call(program.url, "Yard.Stamp", text="unkeyed")
    holds.append("calls")
    if program.knows("requests") or (program.knows("ledger") and "postgres" in about.store):
        about.session = ask(program.url, "POST", "/v1/sessions", {"tools": [OWN_TOOL]})["sessionId"]
        ask(program.url, "POST", f"/v1/sessions/{about.session}/messages", USE)
        ask(program.url, "PUT", "/v1/workers/far", OFFER)
        program.begin("Far.Do", "far", text="there")
        until(lambda: program.is_waiting("far"))
        holds += ["sessions", "workers"]
    if program.knows("extras"):
        for call_id, times in RICH.items():
            call_over_mcp(program.url, "Rich_Give", call_id, times=times)
        holds += ["extras", "upstreams"]
    if program.knows("audit"):
        holds.append("audit")
    for tool in ("once", "again"):
        program.begin(f"Yard.{tool.title()}", tool)
        until(lambda tool=tool: program.has_mark(tool))  # type: ignore[misc]
    time.sleep(1.5)  # what is written behind is there
    program.kill()


def made_key(said: str) -> str:
    return next(word for word in said.split() if word.startswith("ty_"))


def filled(store: str, source: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        if store == "sqlite":
            ledger = Path(folder, "toolyard.db")
            about = About(store, 0, "", [])
            fill(Program(source, Path(folder), f"sqlite:{ledger}"), about)
            about.number, rows = dump_sqlite(ledger)
        else:
            server = OwnServer()
            try:
                url = server.url_of(server.create_empty())
                about = About(store, 0, "", [])
                fill(Program(source, Path(folder), url), about)
                about.number, rows = asyncio.run(dump_postgres(url))
            finally:
                server.close()
    about.migration = digest(next(each for each in migrations(store) if each.number == about.number))
    return keep(about, [row for row in rows if row])


def main() -> None:
    parser = argparse.ArgumentParser(description="Keeps a ledger of each store, as this program writes it.")
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgres"])
    parser.add_argument("--source", type=Path, default=HERE.parents[2] / "src")
    given = parser.parse_args()
    for store in given.stores:
        print(os.path.relpath(filled(store, given.source.absolute())), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
