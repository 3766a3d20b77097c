"""Two nodes on PostgreSQL are upgraded one after the other: the program before the last migration goes on working while
this one migrates and serves.

The program before comes from the repository's own history. Where there is none (a source distribution, a clone without
history) these tests are skipped.
"""

import asyncio
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.serving import running
from tests.postgres import Server, fetch
from toolyard.store.sql_files import SQL, migrations

from .fill import OFFER, OWN_TOOL, SETTINGS, USE, Program, ask, call, until
from .test_upgrades import TOOLS

ROOT = Path(__file__).parents[3]
PACE_S = 0.02


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


@pytest.fixture(scope="module")
def program_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the last program that did not have the newest migration."""
    (newest,) = (SQL / "postgres").glob(f"{migrations('postgres')[-1].number:03}_*.sql")
    found = git("log", "-1", "--first-parent", "-m", "--diff-filter=A", "--format=%H^1", "--", str(newest))
    sources = git("archive", found.decode().strip(), "src") if found else b""
    if not sources:
        pytest.skip("the repository has no history")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=BytesIO(sources)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class Load:
    """Calls with keys at a node, one after the other, in a thread of its own. What each was answered with."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_over = threading.Event()
        self.answered: dict[str, Any] = {}
        self.refused: list[Exception] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._is_over.wait(PACE_S):
            key = f"load-{len(self.answered)}"
            try:
                self.answered[key] = call(self._url, "Yard.Stamp", key, text=key)["value"]
            except Exception as error:
                self.refused.append(error)
                return

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def started(program: Program) -> Iterator[str]:
    program.start()
    try:
        yield program.url
    finally:
        program.kill()


def test_a_node_of_the_program_before_works_on_while_the_next_one_migrates_and_serves(
    program_before: Path, tmp_path: Path, postgres_server: Server
) -> None:
    url = postgres_server.url_of(postgres_server.create_empty())
    (tmp_path / "before").mkdir()
    variables = SETTINGS | {"TOOLYARD_STORE": url, "YARD_PROGRAM": "after"}
    with started(Program(program_before, tmp_path / "before", url)) as before:
        call(before, "Yard.Stamp", "first", text="first")
        with Load(before) as load, running("open", tmp_path, TOOLS, variables) as after:
            assert call(after, "Yard.Stamp", "first", text="first")["value"] == "first, before"
            sessions_move_between(before, after, "one")
            sessions_move_between(after, before, "two")
            workers_serve(after, before, "three")
            workers_serve(before, after, "four")
            keys_are_taken_at_both(before, after)
            values_are_shown_at_both(before, after)
            load.__exit__()
            assert load.refused == []
            for key, value in load.answered.items():
                assert call(after, "Yard.Stamp", key, text=key)["value"] == value
    assert _newest(url) == migrations("postgres")[-1].number


def keys_are_taken_at_both(before: str, after: str) -> None:
    assert call(after, "Yard.Stamp", "by-after", text="key")["value"] == "key, after"
    assert call(before, "Yard.Stamp", "by-after", text="key")["value"] == "key, after"
    assert call(before, "Yard.Stamp", "by-before", text="key")["value"] == "key, before"
    assert call(after, "Yard.Stamp", "by-before", text="key")["value"] == "key, before"
    assert call(before, "Yard.Stamp", text="no key")["value"] == "no key, before"


def values_are_shown_at_both(before: str, after: str) -> None:
    """What stands beside a value is not known to the program before, and stays."""
    assert call(after, "Rich.Give", "rich", times=3)["value"] == {"by": "after"}
    assert call(before, "Rich.Give", "rich", times=3)["value"] == {"by": "after"}
    assert ask(before, "GET", "/v1/calls/rich")["value"] == {"by": "after"}
    assert ask(after, "GET", "/v1/calls/rich")["content"] == [{"type": "text", "text": "xxx"}]


def sessions_move_between(here: str, there: str, use: str) -> None:
    """Opened and answered here, its message handed in and its result read there."""
    session = ask(here, "POST", "/v1/sessions", {"tools": [OWN_TOOL]})["sessionId"]
    ask(there, "POST", f"/v1/sessions/{session}/messages", USE)
    ask(here, "POST", f"/v1/tools/request/{session}/use-1/heartbeat", {"state": "PROCESSING", "heartbeat": 1})
    ask(there, "POST", f"/v1/tools/request/{session}/use-1/heartbeat", {"state": "PROCESSING", "heartbeat": 2})
    ask(here, "POST", f"/v1/tools/response/{session}/use-1", {"response": {"state": "COMPLETE", "seen": use}})
    results = ask(there, "GET", f"/v1/sessions/{session}/results?wait=20")
    assert use in results["message"]["content"][0]["content"]


def workers_serve(here: str, there: str, key: str) -> None:
    """A worker that registers and claims here gets what was called there."""
    named = {"toolyard-worker": "far"}
    ask(here, "PUT", "/v1/workers/far", OFFER)
    calling = threading.Thread(target=call, args=(there, "Far.Do", key), kwargs={"text": key})
    until(lambda: "Far.Do" in str(ask(there, "GET", "/tools")))
    calling.start()
    body = {"tools": ["Far.*"], "limit": 1, "wait": 20}
    (claim,) = ask(here, "POST", "/v1/tools/claim", body, **named)["claims"]
    at = f"/v1/tools/response/{claim['sessionId']}/{claim['requestId']}"
    ask(there, "POST", at, {"response": {"state": "COMPLETE", "value": "done"}}, **named)
    calling.join()
    assert ask(here, "GET", f"/v1/calls/{key}?wait=20")["state"] == "COMPLETE"


def _newest(url: str) -> int:
    ((number,),) = asyncio.run(fetch(url, "SELECT max(version) FROM ledger_schema"))
    return int(number)
