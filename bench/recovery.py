"""A worker is killed in the middle of a call: how long until another has started it again."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from bench import contenders
from bench.contenders import HERE, post
from bench.contest import complain
from bench.database import database
from bench.measure import Effort
from bench.report import Of, Row, bar, figure_row
from bench.servers import Server, ServerError, serving

LEASE_S = 2.0  # in tools/short_lease.toml
BAR = bar(Of.FIGURE, "<=", LEASE_S + 1.0, unit=" s")
TIMES = 5
DEADLINE_S = 20.0
T = TypeVar("T")


def recovery(effort: Effort) -> list[Row]:
    rows = [recovered("SQLite", None)]
    with database() as postgres:
        rows.append(recovered("PostgreSQL", postgres.create()))
    return rows


def recovered(kind: str, store: str | None) -> Row:
    work, name = f"a call of a killed worker runs again, lease {LEASE_S:g} s", f"toolyard, {kind}"
    try:
        with serving(contenders.toolyard(name=name, settings="short_lease.toml", store=store)) as server:
            times = [once(server, number) for number in range(TIMES)]
    except ServerError as error:
        complain(error)
        return Row(work, name, "no figure", bar=BAR)
    return figure_row(work, name, times, "{:.2f} s", BAR)


def once(server: Server, number: int) -> float:
    """From the kill to the start on the other worker. It comes at another point between two heartbeats each time."""
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as name, ExitStack() as stack:
        folder, pool = Path(name), ThreadPoolExecutor(1)
        stack.callback(pool.shutdown, wait=False)
        workers = [stack.enter_context(Hired(server, folder, f"w{number}-{which}")) for which in "ab"]
        call = {"call_id": f"call-{number}", "tool_id": "Waiting.Wait", "input": {"folder": name}}
        exchange = post("/tools/call", call, lambda reply: bool(reply["value"] == "done"))
        called = pool.submit(server.ask, exchange)
        first = until(lambda: next((each for each in workers if each.started_at()), None), "the first start")
        other = next(each for each in workers if each is not first)
        time.sleep(1.0 + 0.17 * number)
        first.kill()
        killed_at = time.monotonic()
        again = until(other.started_at, "the second start")
        (folder / "go").touch()
        called.result(DEADLINE_S)
        return again - killed_at


class Hired:
    """A `toolyard worker` in a process of its own, registered by the time the block begins."""

    def __init__(self, server: Server, folder: Path, name: str) -> None:
        self._folder = folder
        url = f"http://127.0.0.1:{server.port}"
        command = [sys.executable, "-m", "toolyard", "worker", str(HERE / "tools" / "waiting.py")]
        command += ["--server", url, "--name", name, "--log-level", "error"]
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)

    def __enter__(self) -> "Hired":
        try:
            until(lambda: b"Stop with" in self._log.read_bytes(), "a worker's registration")
        except ServerError:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def started_at(self) -> float | None:
        """When the tool was started here, by the clock that all processes share."""
        file = self._folder / f"started-{self._process.pid}"
        return float(json.loads(file.read_text())) if file.exists() else None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def until(happened: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := happened()):
        if time.monotonic() > deadline:
            raise ServerError(f"{what} did not come in {DEADLINE_S:g} s")
        time.sleep(0.005)
    return found
