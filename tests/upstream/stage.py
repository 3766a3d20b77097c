"""A real server with hostile upstreams, a good one and its own tools beside them, and what was seen of all of them.

Nothing here looks at the clock to judge: a call hangs if it is not answered in `HANGS_S`, which is many times the
`timeout_s` of its upstream, and the others are untouched if every one of so many calls gets its result.
"""

import http.client
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from .. import warm
from ..cli.processes import Served, serving
from ..conformance.serving import free_port, stop
from .hostile import MISBEHAVIOURS, Misbehaviour
from .waiting import until, until_listening

HOSTILE, BAZAAR = (str(Path(__file__).with_name(name)) for name in ("hostile.py", "bazaar.py"))
TIMEOUT_S, TOTAL_S = 1.5, 12.0
HANGS_S = 25.0
MOST_MEMORY = 500 * 2**20
"""Bytes that a server ever has in memory; without upstreams it has about a hundred million."""
AT_ONCE = 4
"""Calls of each hostile upstream."""
MEANWHILE = 20
"""Calls of the others."""
_numbers = count(1)


@dataclass(frozen=True)
class Case:
    """One misbehaviour over one transport, in one era and phase."""

    name: str
    kind: str
    era: str
    phase: str

    def __str__(self) -> str:
        return f"{self.name}-{self.phase}-{self.kind}-{self.era}"

    @property
    def misbehaviour(self) -> Misbehaviour:
        return MISBEHAVIOURS[self.name]


def cases_of(name: str) -> list[Case]:
    """Every way in which one misbehaviour can be met."""
    found = MISBEHAVIOURS[name]
    phases = found.phases or (found.phase,)
    return [Case(name, kind, era, phase) for kind in found.kinds for era in found.eras for phase in phases]


@dataclass
class CallSeen:
    """How a call was answered; nothing of it where it was not."""

    status: int = 0
    body: bytes = b""

    @property
    def answer(self) -> Any:
        return json.loads(self.body)

    @property
    def is_result(self) -> bool:
        return self.status == 200 and "value" in self.answer


@dataclass
class Seen:
    """What was seen of one hostile upstream."""

    case: Case
    upstream: str
    is_listed: bool = False
    calls: list[CallSeen] = field(default_factory=list)


class Stage:
    """The server, and what runs beside it."""

    def __init__(self, served: Served, cases: dict[str, Case], notes: Path, ports: set[int]) -> None:
        self.served, self.cases, self._notes, self._ports = served, cases, notes, ports

    def notes(self) -> list[str]:
        return self._notes.read_text().splitlines()

    def call(self, tool: str, input: Any = None, **more: Any) -> CallSeen:
        """Nothing, where it was not answered in time."""
        host = self.served.address.removeprefix("http://").partition("/")[0]
        connection = http.client.HTTPConnection(host, timeout=HANGS_S)
        body = json.dumps({"tool_id": tool, "input": input or {}, **more})
        try:
            connection.request("POST", "/tools/call", body, {"content-type": "application/json"})
            reply = connection.getresponse()
            return CallSeen(reply.status, reply.read())
        except TimeoutError:
            return CallSeen()
        finally:
            connection.close()

    def listed(self) -> set[str]:
        return {tool["name"] for tool in self.served.request("GET", "/tools")["items"]}

    def health(self) -> tuple[int, Any]:
        host = self.served.address.removeprefix("http://").partition("/")[0]
        connection = http.client.HTTPConnection(host, timeout=HANGS_S)
        try:
            connection.request("GET", "/health")
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def most_memory(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.served.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def leaks(self, text: bytes) -> list[str]:
        """Addresses that a caller is told and has no use for."""
        return [f"127.0.0.1:{port}" for port in self._ports if f"127.0.0.1:{port}".encode() in text]

    # -- all at once ---------------------------------------------------------------------------------

    def play(self) -> tuple[list[Seen], list[CallSeen]]:
        """Calls what hostile upstreams list, all of them at once, and others meanwhile. What became of each."""
        until(lambda: "Good_echo" in self.listed())
        wanted = [name for name, case in self.cases.items() if self._is_callable(case)]
        until(lambda: {f"{name}_act" for name in wanted} <= self.listed())
        listed = self.listed()
        seen = [Seen(case, name, f"{name}_act" in listed) for name, case in self.cases.items()]
        calling: dict[str, list[Future[CallSeen]]] = {}
        with ThreadPoolExecutor(AT_ONCE * len(seen) + 4) as threads:
            for each in seen:
                tool = f"{each.upstream}.act"
                if each.is_listed:
                    calling[each.upstream] = [threads.submit(self.call, tool) for _ in range(AT_ONCE)]
            good = [threads.submit(self.call, "Good.echo", {"text": f"{n}"}) for n in range(MEANWHILE)]
            own = [threads.submit(self.call, "Calculator.Add", {"a": n, "b": 1}) for n in range(MEANWHILE)]
        for each in seen:
            each.calls = [made.result() for made in calling.get(each.upstream, ())]
        return seen, [made.result() for made in (*good, *own)]

    def _is_callable(self, case: Case) -> bool:
        """Whether it must come to be listed: it behaves well until it is called, or its list is to be taken all the
        same."""
        return case.phase == "call" or bool(case.misbehaviour.works and not case.misbehaviour.phases)

    # -- the end ---------------------------------------------------------------------------------------

    def groups(self) -> set[int]:
        """The process groups of all programs that were started."""
        return {int(line.split()[2]) for line in self.notes() if line.startswith("started ")}

    def end(self, number: int = signal.SIGTERM) -> int:
        return self.served.end(number)


def alive_in(groups: set[int]) -> dict[int, str]:
    """The processes of these groups that are there now, by their ids."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                status = (each / "stat").read_text().rpartition(")")[2].split()
                if int(status[2]) in groups and status[0] != "Z":
                    found[int(each.name)] = (each / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


@contextmanager
def hostile_port(folder: Path) -> Iterator[int]:
    """Where a process serves every misbehaviour over HTTP."""
    port = free_port()
    notes = folder / "notes"
    notes.touch()
    process = warm.start(
        [sys.executable, HOSTILE, str(port)], env={"HOSTILE_NOTES": str(notes), "PATH": os.defpath}, cwd=folder
    )
    try:
        until_listening(port)
        yield port
    finally:
        stop(process)


def upstream_of(case: Case, name: str, port: int, notes: Path) -> dict[str, Any]:
    """The settings of a hostile upstream."""
    named = f"{case.name}@{case.phase}"
    made: dict[str, Any] = {"name": name, "timeout_s": 10.0 if case.misbehaviour.works else TIMEOUT_S}
    if case.kind == "stdio":
        command = [sys.executable, "-S", "-E", HOSTILE, case.era, named]
        return made | {"command": command, "env": {"HOSTILE_NOTES": str(notes)}}
    return made | {"mcp": f"http://127.0.0.1:{port}/{case.era}/{named}/{next(_numbers)}"}


@contextmanager
def staged(
    cases: Sequence[Case], folder: Path, port: int, good: dict[str, Any], variables: dict[str, str] | None = None
) -> Iterator[Stage]:
    """A server with these upstreams and a good one."""
    notes = folder / "notes"
    notes.touch()
    named = {f"X{number}": case for number, case in enumerate(cases)}
    upstreams = [upstream_of(case, name, port, notes) for name, case in named.items()]
    settings = {
        "TOOLYARD_UPSTREAMS": json.dumps([*upstreams, good]),
        "TOOLYARD_SYNC_WAIT_S": "20",
        "TOOLYARD_TOTAL_TIMEOUT_S": str(TOTAL_S),
    }
    with serving("toolyard.reference", folder=folder, variables=settings | (variables or {})) as served:
        yield Stage(served, named, notes, {port})


@contextmanager
def good_upstream(folder: Path, kind: str = "http") -> Iterator[dict[str, Any]]:
    """The settings of one that does what it should."""
    if kind == "stdio":
        yield {"name": "Good", "command": [sys.executable, BAZAAR, "2025-11-25"]}
        return
    port = free_port()
    with ExitStack() as stack:
        process = warm.start([sys.executable, BAZAAR, "2026-07-28", str(port)], env={"PATH": os.defpath}, cwd=folder)
        stack.callback(stop, process)
        until_listening(port)
        yield {"name": "Good", "mcp": f"http://127.0.0.1:{port}/mcp"}


Check = Callable[[Stage], None]
