"""A ledger of every migration number, as the program of its time left it when it was killed, served by this program."""

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests import warm
from tests.conformance.serving import environment, running
from tests.postgres import Server, execute, fetch
from toolyard.store.sql_files import migrations

from .fill import ADA, HERE, OFFER, RICH, SETTINGS, SMS_KEY, UPSTREAM, USE, Answer, ask, call, call_over_mcp
from .ledgers import FOLDER, STORES, About, Kept, digest, kept, load_postgres, load_sqlite, passed

LEDGERS = sorted(FOLDER.glob("*.sql"))
OFFERS = {"sqlite": 10, "postgres": 9}
"""From when on it is known to whom a call of a worker's tool was made."""
TOOLS = [str(HERE / name) for name in ("tools.py", "held_tools.py", "rich_tools.py:app")]
DEADLINE_S = 30.0


class Upgraded:
    """A server of this program on a ledger of another's."""

    def __init__(self, about: About, url: str, folder: Path, variables: dict[str, str]) -> None:
        self.about, self.url = about, url
        self._folder, self._variables = folder, variables

    def call(self, tool: str, call_id: str | None = None, key: str = ADA, **input: object) -> Any:
        return call(self.url, tool, call_id, key, **input)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        return ask(self.url, method, path, body, **headers)

    def verb(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return warm.run(
            [sys.executable, "-m", "toolyard", *arguments],
            input="",
            timeout=DEADLINE_S,
            cwd=self._folder,
            env=environment("open") | self._variables,
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What is in its ledger, read beside it."""
        store = self._variables["TOOLYARD_STORE"]
        if self.about.store == "postgres":
            return [tuple(row) for row in asyncio.run(fetch(store, sql))]
        file = self._folder / store.partition(":")[2]
        with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            return list(connection.execute(sql))

    def shown(self, call_id: str) -> Any:
        return self.ask("GET", f"/v1/calls/{call_id}?wait=20")


@contextmanager
def upgraded(ledger: Kept, folder: Path, postgres: Server) -> Iterator[Upgraded]:
    with there(ledger, folder, postgres) as store:
        variables = SETTINGS | {"TOOLYARD_STORE": store, "YARD_PROGRAM": "after"}
        with running("open", folder, TOOLS, variables) as url:
            yield Upgraded(ledger.about, url, folder, variables)


@contextmanager
def there(ledger: Kept, folder: Path, postgres: Server) -> Iterator[str]:
    """The ledger as it was then; the value is its address."""
    if ledger.about.store == "sqlite":
        load_sqlite(ledger, folder / "toolyard.db")
        yield "sqlite:toolyard.db"
        return
    database = postgres.create_empty()
    asyncio.run(load_postgres(ledger, postgres.url_of(database)))
    yield postgres.url_of(database)
    postgres.drop(database)


# --- every number ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LEDGERS, ids=[path.stem for path in LEDGERS])
def test_a_ledger_of_an_older_program_keeps_what_it_promised(
    path: Path, tmp_path: Path, postgres_server: Server
) -> None:
    with upgraded(kept(path), tmp_path, postgres_server) as server:
        for held in server.about.holds:
            CHECKS[held](server)


def calls_are_answered_from_the_ledger(server: Upgraded) -> None:
    assert server.call("Yard.Stamp", "done", text="keyed")["value"] == "keyed, before"
    assert server.call("Yard.Large", "large")["value"] == "x" * 300_000
    assert "failed before" in str(server.call("Yard.Fail", "failed"))
    with pytest.raises(Answer, match="400"):
        server.call("Yard.Stamp", "done", text="another")
    assert server.shown("once")["code"] == "outcome_unknown"
    assert server.shown("again")["state"] == "COMPLETE"
    assert server.call("Yard.Again", "again")["value"] == "after"
    assert server.call("Yard.Stamp", "new", text="keyed")["value"] == "keyed, after"
    listed = server.ask("GET", "/v1/calls?limit=100")["calls"]
    assert [each["tool"].partition("@")[0] for each in listed].count("Yard.Stamp") == 3  # one of them had no key


def requests_of_sessions_can_be_claimed(server: Upgraded) -> None:
    request = f"{server.about.session}/use-1"
    assert server.ask("POST", f"/v1/sessions/{server.about.session}/messages", USE)["requests"][0]["state"] == "PENDING"
    server.ask("POST", f"/v1/tools/request/{request}/heartbeat", {"state": "PROCESSING", "heartbeat": 1})
    server.ask("POST", f"/v1/tools/response/{request}", {"response": {"state": "COMPLETE", "seen": 1}})
    results = server.ask("GET", f"/v1/sessions/{server.about.session}/results?wait=20")
    assert results["message"]["content"][0]["content"] == '{"seen":1}'


def requests_of_workers_are_for_those_to_whom_they_were_made(server: Upgraded) -> None:
    """Of what was made before a ledger has offers nobody knows that: it is given to nobody."""
    server.ask("PUT", "/v1/workers/far", OFFER)
    body = {"tools": ["Far.*"], "limit": 10}
    claims = server.ask("POST", "/v1/tools/claim", body, **{"toolyard-worker": "far"})["claims"]
    if server.about.number < OFFERS[server.about.store]:
        assert claims == []
        assert server.ask("GET", "/v1/calls/far")["state"] == "PENDING"
        return
    (claim,) = claims
    assert claim["input"] == {"text": "there"}
    at = f"/v1/tools/response/{claim['sessionId']}/{claim['requestId']}"
    server.ask("POST", at, {"response": {"state": "COMPLETE", "value": "done"}}, **{"toolyard-worker": "far"})
    assert server.shown("far")["state"] == "COMPLETE"


def keys_let_in_whom_they_did(server: Upgraded) -> None:
    assert server.about.api_key is not None
    assert server.about.revoked_key is not None
    assert server.call("Yard.Stamp", key=server.about.api_key, text="in")["value"] == "in, after"
    with pytest.raises(Answer, match="401"):
        server.call("Yard.Stamp", key=server.about.revoked_key, text="in")


def secrets_open(server: Upgraded) -> None:
    digest = hashlib.sha256(SMS_KEY.encode()).hexdigest()
    assert server.call("Held.Send", "sent")["value"] == digest
    assert server.call("Held.Send")["value"] == digest


def what_waits_for_a_yes_gets_it(server: Upgraded) -> None:
    waiting = server.verb("approvals").stdout
    number = next(line.split()[0] for line in waiting.splitlines() if "Held.Pay" in line)
    assert server.verb("approve", number).returncode == 0
    assert server.shown("paid")["state"] == "COMPLETE"
    assert server.call("Held.Pay", "paid", cents=5)["value"] == "5, after"


def what_stood_beside_a_value_still_does(server: Upgraded) -> None:
    for call_id, times in RICH.items():
        result = call_over_mcp(server.url, "Rich_Give", call_id, times=times)
        text, *cut = result["content"]
        assert text["text"] == "x" * min(times, 256 * 1024)
        assert bool(cut) == (times > 256 * 1024)
        assert result["_meta"]["program"] == "before"
        assert result.get("structuredContent") == (None if result.get("isError") else {"by": "before"})


def what_upstreams_offered_is_known(server: Upgraded) -> None:
    assert server.rows("SELECT name, address, listing FROM upstreams") == [UPSTREAM]


def the_audit_log_is_whole(server: Upgraded) -> None:
    verified = server.verb("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


CHECKS = {
    "calls": calls_are_answered_from_the_ledger,
    "sessions": requests_of_sessions_can_be_claimed,
    "workers": requests_of_workers_are_for_those_to_whom_they_were_made,
    "keys": keys_let_in_whom_they_did,
    "secrets": secrets_open,
    "approvals": what_waits_for_a_yes_gets_it,
    "extras": what_stood_beside_a_value_still_does,
    "upstreams": what_upstreams_offered_is_known,
    "audit": the_audit_log_is_whole,
}


# --- the files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES)
def test_there_is_a_ledger_of_every_number(store: str) -> None:
    """`python -m tests.system.upgrades.fill` makes one of the newest."""
    assert [kept(path).about.number for path in LEDGERS if path.stem.startswith(store)] == [
        migration.number for migration in migrations(store)
    ]


@pytest.mark.parametrize("path", LEDGERS, ids=[path.stem for path in LEDGERS])
def test_a_migration_that_ledgers_have_behind_them_does_not_change(path: Path) -> None:
    about = kept(path).about
    assert digest(passed(about)[-1]) == about.migration


# --- a newer one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("verb", [["serve", *TOOLS], ["calls"]], ids=["serve", "a verb"])
def test_a_program_refuses_a_newer_ledger_in_a_sentence(
    store: str, verb: list[str], tmp_path: Path, postgres_server: Server
) -> None:
    newest = kept(LEDGERS[[path.stem.startswith(store) for path in LEDGERS].index(True)])
    newer = migrations(store)[-1].number + 1
    with there(newest, tmp_path, postgres_server) as address:
        make_newer(store, address, tmp_path, newer)
        variables = environment("open") | SETTINGS | {"TOOLYARD_STORE": address, "YARD_PROGRAM": "after"}
        ended = warm.run(
            [sys.executable, "-m", "toolyard", *verb], input="", timeout=DEADLINE_S, cwd=tmp_path, env=variables
        )
    assert ended.returncode == 2
    (sentence,) = ended.stderr.splitlines()
    assert sentence.endswith(f"the ledger has schema {newer}, and this toolyard knows {newer - 1}; upgrade toolyard")
    assert "Traceback" not in ended.stdout


def make_newer(store: str, address: str, folder: Path, number: int) -> None:
    if store == "sqlite":
        apsw.Connection(str(folder / "toolyard.db")).execute(f"PRAGMA user_version = {number}")
    else:
        asyncio.run(execute(address, f"INSERT INTO ledger_schema VALUES ({number})"))
