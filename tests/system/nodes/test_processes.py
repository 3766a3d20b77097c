"""`toolyard serve --processes 2`: one address, two processes, and it does not matter which of them answers."""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from ...cli.processes import Served, serving, toolyard
from ...conformance.serving import environment, free_port, stop
from ...postgres import Server
from ...server.certificates import signed

TOOLS = str(Path(__file__).with_name("group_tools.py"))
DEADLINE_S = 30.0
LIMITS = [{"name": "rare", "tools": ["Kit.Rare"], "per": "caller", "calls_per_minute": 3}]
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "test", "version": "1"},
}


class Line:
    """One connection, which is one process's."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, path, sent, {"content-type": "application/json", **headers})
        reply = self._connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()

    def told(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.ask(method, path, body)[2])

    def call(self, tool: str, input: Any = None, call_id: str | None = None, path: str = "") -> Any:
        body = {"tool_id": tool, "input": input or {}, **({} if call_id is None else {"call_id": call_id})}
        return self.told("POST", f"{path}/tools/call", body)

    def close(self) -> None:
        self._connection.close()


class Yard:
    """The server of these tests."""

    def __init__(self, served: Served, folder: Path, variables: dict[str, str]) -> None:
        self.served, self.folder, self._variables = served, folder, variables

    @property
    def address(self) -> str:
        return self.served.address

    def lines(self) -> dict[int, Line]:
        """A connection to each process, by its pid. New ones are opened until both have one."""
        found: dict[int, Line] = {}
        for _ in range(100):
            line = Line(self.address)
            found.setdefault(line.call("Kit.Where")["value"], line)
            if len(found) == 2:
                return found
        raise AssertionError("one process takes no connections")

    def fresh(self) -> Line:
        return Line(self.address)

    def verb(self, *arguments: str) -> str:
        ended = toolyard(*arguments, folder=self.folder, variables=self._variables)
        assert ended.code == 0, ended.err
        return ended.out

    @property
    def shared(self) -> Path:
        """The folder of the processes, from how the first of them was started."""
        first = children(self.served)[0]
        return Path(re.findall(r"\"folder\":\"([^\"]+)\"", Path(f"/proc/{first}/cmdline").read_text())[0])

    def marks(self) -> list[str]:
        return (self.folder / "marks").read_text().splitlines()


def children(served: Served) -> list[int]:
    """The processes that a parent has started."""
    parent = served.process.pid
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.fixture(scope="module")
def yard(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder, database = tmp_path_factory.mktemp("group"), postgres_server.create()
    (folder / "marks").touch()
    variables = {
        "TOOLYARD_STORE": postgres_server.url_of(database),
        "TOOLYARD_LIMITS": json.dumps(LIMITS),
        "TOOLYARD_LEASE_S": "1",
        "TOOLYARD_SYNC_WAIT_S": "20",
        "MARKS": str(folder / "marks"),
    }
    with serving(TOOLS, "--processes", "2", folder=folder, variables=variables) as served:
        assert "in 2 processes" in "\n".join(served.said)
        made = Yard(served, folder, variables)
        yield made
        shared = made.shared
        assert served.end() == 0
        assert not shared.exists()
    postgres_server.drop(database)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def counted(line: Line, tool: str) -> float:
    text = line.ask("GET", "/metrics")[2].decode()
    found = re.search(rf'toolyard_calls_total{{outcome="success",tool="{re.escape(tool)}",wire="oxp"}} (\S+)', text)
    return float(found[1]) if found else 0.0


def test_what_one_process_did_the_other_knows(yard: Yard) -> None:
    one, other = yard.lines().values()
    done = one.call("Kit.Once", {"text": "shared"}, "shared")
    assert other.call("Kit.Once", {"text": "shared"}, "shared")["value"] == done["value"]
    assert [mark for mark in yard.marks() if mark.startswith("shared ")] == [f"shared {done['value']}"]
    assert other.told("GET", "/v1/calls/shared")["state"] == "COMPLETE"
    unkeyed = one.call("Kit.Where")["call_id"]
    until(lambda: other.ask("GET", f"/v1/calls/{unkeyed}")[0] == 200)


def test_an_mcp_session_is_not_one_process_s(yard: Yard) -> None:
    lines = list(yard.lines().values())

    def post(line: Line, method: str, params: Any, session: str = "") -> tuple[int, dict[str, str], bytes]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"accept": "application/json, text/event-stream"} | ({"mcp-session-id": session} if session else {})
        return line.ask("POST", "/mcp", message, **headers)

    session = post(lines[0], "initialize", INITIALIZE)[1]["mcp-session-id"]
    called = {"name": "Kit_Where", "arguments": {}}
    pids = {json.loads(post(line, "tools/call", called, session)[2])["result"]["content"][0]["text"] for line in lines}
    assert len(pids) == 2
    for _ in range(4):
        assert post(yard.fresh(), "tools/call", called, session)[0] == 200
    assert lines[1].ask("DELETE", "/mcp", None, **{"mcp-session-id": session})[0] == 204
    assert post(lines[0], "tools/call", called, session)[0] == 404


def test_a_question_that_one_process_asks_is_answered_at_the_other(yard: Yard) -> None:
    """As a stream of one process, on which the tool asks, and an answer in a request that the other gets."""
    one, other = yard.lines().values()
    headers = {"accept": "application/json, text/event-stream"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    headers["mcp-session-id"] = one.ask("POST", "/mcp", begin, **headers)[1]["mcp-session-id"]
    asks = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "Kit_Ask", "arguments": {}}}
    one._connection.request("POST", "/mcp", json.dumps(asks), {"content-type": "application/json", **headers})
    stream = one._connection.getresponse()
    question = next(message for message in events(stream) if message.get("method") == "elicitation/create")
    field = next(iter(question["params"]["requestedSchema"]["properties"]))
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {field: "well"}}}
    assert other.ask("POST", "/mcp", answer, **headers)[0] == 202
    response = next(message for message in events(stream) if message.get("id") == 2)
    assert response["result"]["content"][0]["text"] == "well"


def events(stream: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := stream.readline():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def test_an_approval_reaches_the_process_that_waits_for_it(yard: Yard) -> None:
    """One has the call and its caller waits there, a verb of the operator decides, and the other runs it."""
    one, other = yard.lines().values()
    assert "waits for approval" in one.call("Kit.Pay", {"cents": 5}, "bill")["message"]
    ended: list[Any] = []
    thread = threading.Thread(target=lambda: ended.append(one.told("GET", "/v1/calls/bill?wait=20")))
    thread.start()
    (number,) = re.findall(r"^\s*(\d+)\b.*Kit\.Pay", yard.verb("approvals"), re.MULTILINE)
    yard.verb("approve", number)
    assert other.call("Kit.Pay", {"cents": 5}, "bill")["value"] == 5
    thread.join(DEADLINE_S)
    assert ended[0]["state"] == "COMPLETE"


def test_a_limit_is_that_of_all_processes(yard: Yard) -> None:
    one, other = yard.lines().values()
    for _ in range(3):
        assert one.call("Kit.Rare")["success"]
    until(lambda: "Too many calls" in other.call("Kit.Rare").get("message", ""))
    assert "Too many calls" in one.call("Kit.Rare")["message"]


def test_a_line_of_the_log_says_whose_it_is(yard: Yard) -> None:
    for line in yard.lines().values():
        line.call("Kit.Tell", {"text": "hello"})
    heard = [yard.served.hear("toolyard.tool")[-1] for _ in range(2)]
    assert sorted(re.findall(r"hello \[process=([12]) request=", "\n".join(heard))) == ["1", "2"]


def test_metrics_are_those_of_all_processes_and_do_not_fall_when_one_dies(yard: Yard) -> None:
    lines = yard.lines()
    before = counted(next(iter(lines.values())), "Kit.Again")
    for number, line in enumerate((*lines.values(), *lines.values(), next(iter(lines.values())))):
        line.call("Kit.Again", {"text": "m"}, f"metric-{number}")
    assert [counted(line, "Kit.Again") - before for line in lines.values()] == [5, 5]
    text = next(iter(lines.values())).ask("GET", "/metrics")[2].decode()
    assert set(re.findall(r'process_resident_memory_bytes{process="(\d)"}', text)) == {"1", "2"}
    until(lambda: _written(yard) == before + 5)
    (dead, _), (_, line) = lines.items()
    os.kill(dead, signal.SIGKILL)
    yard.served.hear("was ended by SIGKILL")
    assert counted(line, "Kit.Again") - before == 5
    yard.served.hear("takes calls")
    assert [counted(each, "Kit.Again") - before for each in yard.lines().values()] == [5, 5]


def _written(yard: Yard) -> int:
    """What the processes have written down of the calls that they counted."""
    calls = [call for each in yard.shared.glob("*.counts") for call in json.loads(each.read_bytes())["calls"]]
    return sum(call[1] for call in calls if call[0][1] == "Kit.Again")


def test_a_process_that_is_killed_under_load_costs_its_callers_one_retry_and_doubles_nothing(yard: Yard) -> None:
    """Each caller makes one keyed call after the other, with new connections, and again where it got no answer.

    One call is in the process that dies, whatever the others are at: its caller has to notice.
    """
    victim, line = next(iter(yard.lines().items()))
    ended: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    is_killed = threading.Event()

    def caller(name: str, tool: str) -> None:
        number = 0
        while number < 10 or (not is_killed.is_set() and number < 10_000):
            ended.append({"text": f"{name}{number}", "tool": tool} | insisted(yard, tool, f"{name}{number}"))
            number += 1

    threads = [
        threading.Thread(target=caller, args=(f"{tool}-{each}-", f"Kit.{tool}"))
        for tool in ("Once", "Again")
        for each in range(4)
    ]
    threads.append(threading.Thread(target=lambda: held.append(insisted(yard, "Kit.Stay", "held", line))))
    for thread in threads:
        thread.start()
    until(lambda: len(ended) > 20 and f"held {victim}" in yard.marks())
    os.kill(victim, signal.SIGKILL)
    yard.served.hear("was ended by SIGKILL")
    yard.served.hear("takes calls")
    (yard.folder / "marks.released").touch()
    is_killed.set()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    ran = [mark.split()[0] for mark in yard.marks()]
    for each in ended:
        times = ran.count(each["text"])
        if each["tool"] == "Kit.Again":
            assert each.get("success"), each
        else:
            assert times == 1, each
            assert each.get("success") or each["code"] == "outcome_unknown", each
    assert held[0]["success"], held
    assert held[0]["tries"] > 1, "nobody noticed"
    assert held[0]["value"] != victim
    assert len(yard.lines()) == 2


def insisted(yard: Yard, tool: str, text: str, first: Line | None = None) -> dict[str, Any]:
    """The end of a keyed call, for which it is asked again where the connection breaks."""
    for tries in range(1, 200):
        line = first if first and tries == 1 else yard.fresh()
        try:
            outcome = line.call(tool, {"text": text}, text)
        except (OSError, http.client.HTTPException):
            continue
        finally:
            line.close()
        return {"tries": tries, "code": code_of(yard, text), **outcome}
    raise AssertionError(f"{text} got no answer")


def code_of(yard: Yard, call_id: str) -> str | None:
    line = yard.fresh()
    try:
        code: str | None = line.told("GET", f"/v1/calls/{call_id}").get("code")
        return code
    except (OSError, http.client.HTTPException):
        return None
    finally:
        line.close()


def test_all_processes_follow_new_settings_and_all_of_them_drain(postgres_url: str, tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text("cors_origins = []\ndrain_s = 60\n")
    variables = {"TOOLYARD_STORE": postgres_url, "MARKS": str(tmp_path / "marks")}
    with serving(TOOLS, "--processes", "2", folder=tmp_path, variables=variables) as served:
        yard = Yard(served, tmp_path, variables)
        lines = list(yard.lines().values())
        file.write_text('cors_origins = ["https://app.example.com"]\ndrain_s = 60\n')
        served.process.send_signal(signal.SIGHUP)
        for _ in lines:
            served.hear("changed: cors_origins")
        page = {"origin": "https://app.example.com"}
        assert [line.ask("GET", "/ready", **page)[0] for line in lines] == [200, 200]
        allowed = [line.ask("GET", "/tools", **page)[1].get("access-control-allow-origin") for line in lines]
        assert allowed == [page["origin"]] * 2
        waiting = [yard.fresh() for _ in range(4)]
        served.process.send_signal(signal.SIGTERM)
        until(lambda: yard.fresh().ask("GET", "/ready")[0] == 503)
        pids = {each.call("Kit.Where")["value"] for each in waiting}  # who drains still takes calls
        assert len(pids | {yard.fresh().call("Kit.Where")["value"] for _ in range(8)}) == 2
        assert {yard.fresh().ask("GET", "/ready")[0] for _ in range(8)} == {503}
        served.process.send_signal(signal.SIGTERM)  # nobody has to wait for that
        assert served.process.wait(DEADLINE_S) == 0


def test_a_process_that_is_started_again_follows_what_the_others_do(postgres_url: str, tmp_path: Path) -> None:
    page, other = ("https://app.example.com", "https://other.example.com")
    file = tmp_path / "toolyard.toml"
    file.write_text(f'cors_origins = ["{page}"]\n')
    variables = {"TOOLYARD_STORE": postgres_url, "MARKS": str(tmp_path / "marks")}
    with serving(TOOLS, "--processes", "2", folder=tmp_path, variables=variables) as served:
        yard = Yard(served, tmp_path, variables)

        def admitted(origin: str) -> list[bool]:
            """Whether each of the processes lets a page in, once one of them was started again."""
            pids = list(yard.lines())
            os.kill(pids[0], signal.SIGKILL)
            served.hear("takes calls")
            lines = yard.lines()
            assert len({*lines, *pids}) == 3
            return [line.ask("GET", "/tools", origin=origin)[0] == 200 for line in lines.values()]

        file.write_text("=")
        served.process.send_signal(signal.SIGHUP)
        for _ in range(2):
            served.hear("those before stay in force")
        assert admitted(page) == [True, True]
        file.write_text(f'cors_origins = ["{other}"]\n')  # and nobody is told
        assert admitted(other) == [False, False]
        served.process.send_signal(signal.SIGHUP)
        for _ in range(2):
            served.hear("changed: cors_origins")
        file.write_text('approvals = [{ tools = ["*"] }]\n')
        served.process.send_signal(signal.SIGHUP)
        for _ in range(2):
            served.hear("changed: cors_origins")
        assert admitted(other) == [False, False]
        # What takes a restart of all is not in force in one of them alone.
        assert [line.call("Kit.Where")["value"] for line in yard.lines().values()]
        file.unlink()
        assert admitted(other) == [False, False]


def test_sqlite_is_for_one_process_and_says_so(tmp_path: Path) -> None:
    ended = toolyard("serve", "--processes", "2", folder=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "toolyard: 2 processes cannot serve from sqlite:toolyard.db, because SQLite lets one process write: name a "
        "PostgreSQL database with --store postgresql://…, or serve with one process\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_keeps_a_server_from_starting_is_said_once(postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("import nothing_of_that_name\n")
    ended = toolyard("serve", "tools.py", "--processes", "3", "--port", "0", "--store", postgres_url, folder=tmp_path)
    assert ended.code == 2
    assert ended.err.count("nothing_of_that_name") == 1


def test_over_https_a_parent_that_is_killed_takes_its_processes_with_it(postgres_url: str, tmp_path: Path) -> None:
    certificate = signed(tmp_path)
    variables = {"TOOLYARD_STORE": postgres_url, "MARKS": str(tmp_path / "marks"), **certificate.variables}
    with serving(TOOLS, "--processes", "2", folder=tmp_path, variables=variables) as served:
        pids = children(served)
        assert len(pids) == 2
        trusting = ssl.create_default_context(cafile=str(certificate.cert_file))
        (port,) = re.findall(r"OXP 1\.0 +https://127\.0\.0\.1:(\d+)", "\n".join(served.said))
        connection = http.client.HTTPSConnection("127.0.0.1", int(port), timeout=DEADLINE_S, context=trusting)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        shared = Yard(served, tmp_path, variables).shared
        served.end(signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
        assert not shared.exists(), "nothing is left of it"


def test_a_mounted_app_is_served_by_several_workers_of_uvicorn(postgres_url: str, tmp_path: Path) -> None:
    """Which start at the same moment, with a ledger and without a key."""
    text = Path(TOOLS).read_text(encoding="utf-8")
    mounting = "from fastapi import FastAPI\ntools = App(kit).asgi()\napi = FastAPI(lifespan=tools.lifespan)\n"
    app = (
        text.replace("import Context, Toolkit", "import App, Context, Toolkit")
        + mounting
        + 'api.mount("/yard", tools)\n'
    )
    (tmp_path / "main.py").write_text(app, encoding="utf-8")
    marks, port = tmp_path / "marks", free_port()
    marks.touch()
    variables = environment("open") | {"TOOLYARD_STORE": postgres_url, "MARKS": str(marks)}
    command = [sys.executable, "-m", "uvicorn", "main:api", "--port", str(port), "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, env=variables)
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: len(workers(address)) == 2)
        one, other = workers(address).values()
        done = one.call("Kit.Once", {"text": "mounted"}, "mounted", "/yard")
        assert done["success"], done
        assert other.call("Kit.Once", {"text": "mounted"}, "mounted", "/yard") == done | {"duration": ANY}
        assert marks.read_text().splitlines() == [f"mounted {done['value']}"]
    finally:
        stop(process)
    assert process.returncode == 0


def workers(address: str) -> dict[int, Line]:
    """A connection to each worker that takes some now."""
    found: dict[int, Line] = {}
    for _ in range(20):
        line = Line(address)
        try:
            found.setdefault(line.call("Kit.Where", path="/yard")["value"], line)
        except OSError:
            break
    return found
