"""`toolyard backup` and `restore`, as the guide has them: on a server that is called all the time and killed in the
middle, with keys that were made, revoked and lost."""

import asyncio
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL

import pytest

from toolyard import Client, ToolyardError
from toolyard.model.errors import NotAuthenticated
from toolyard.model.writes import DIRECT
from toolyard.server.console.login_sessions import SESSION
from toolyard.store.contract import Store
from toolyard.store.postgres.store import PostgresStore
from toolyard.store.sqlite.file import close, opened
from toolyard.store.sqlite.store import SqliteStore
from toolyard.store.values import Note

from ..conformance.serving import environment
from ..docs.examples import commands
from ..docs.markdown import blocks
from ..postgres import Server, do_as_told, execute, fetch
from ..store.calls import call as new_call
from .operated import ADA, Yard, until, yard
from .processes import Ended, Served

__all__ = ["yard"]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "backup.md"
SOMEBODY = 65534
COUNTING = '''
from toolyard import Toolkit

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def count(text: str) -> str:
    """Leaves a mark, so that it is seen how often it ran."""
    with open("marks", "a") as marks:
        marks.write(text + "\\n")
    return text.upper()
'''


def guide_line(verb: str) -> list[str]:
    """The words of the guide's first line with that verb."""
    consoles = [block for block in blocks(GUIDE.read_text(encoding="utf-8")) if block.language == "console"]
    lines = [command.text for block in consoles for command in commands(block.text)]
    return next(shlex.split(line)[1:] for line in lines if line.startswith(f"toolyard {verb} "))


class Load:
    """Callers who make one call after the other, each with an id of its own, and know which were answered."""

    def __init__(self, served: Served, key: str) -> None:
        self.answered: list[str] = []
        self._numbers, self._is_over = itertools.count(), threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(served.address, key)) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _call(self, address: str, key: str) -> None:
        with Client(address, retries=0, key=key) as client:
            while not self._is_over.is_set():
                text = f"c-{next(self._numbers)}"
                try:
                    assert client.call("Kit.Count", {"text": text}, call_id=text) == text.upper()
                except ToolyardError:
                    return  # the server is gone
                self.answered.append(text)

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def loaded(served: Served, key: str) -> Iterator[Load]:
    load = Load(served, key)
    try:
        until(lambda: len(load.answered) > 20)
        yield load
    finally:
        load.end()


def key_of(yard: Yard, name: str) -> str:
    return yard.toolyard("keys", "new", name).out.strip()


def refused(served: Served, key: str | None) -> bool:
    with Client(served.address, retries=0, key=key) as client:
        try:
            client.list()
        except ToolyardError as error:
            return isinstance(error, NotAuthenticated)
    return False


def test_the_guides_lines_hold_on_a_server_that_is_called_and_killed(yard: Yard) -> None:
    (yard.folder / "tools.py").write_text(COUNTING)
    agent, gone = key_of(yard, "agent"), key_of(yard, "gone")
    yard.toolyard("keys", "revoke", "gone")
    with yard.serving() as served, loaded(served, agent) as load:
        before = list(load.answered)
        made = yard.toolyard(*guide_line("backup"))
        assert (made.code, "API keys 1 and 1 revoked" in made.out) == (0, True), made
        assert "toolyard.key is not in it" in made.err
        late = key_of(yard, "late")
        after = len(load.answered)
        until(lambda: len(load.answered) > after + 20)
        assert yard.toolyard(*guide_line("restore")).code == 2, "a server has it"
        assert served.end(SIGKILL) == -SIGKILL
    ran = yard.marks()
    restored = yard.toolyard(*guide_line("restore"))
    assert restored.code == 0, restored
    moment = re.compile(r"as it was at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)").findall
    assert moment(restored.out) == moment(made.out) != []
    assert "API keys that were revoked since are good again" in restored.err
    with yard.serving() as served:
        assert [refused(served, key) for key in (agent, gone, late)] == [False, True, True]
        with Client(served.address, key=agent) as client:
            for text in before[:10] + before[-10:]:
                assert client.call("Kit.Count", {"text": text}, call_id=text) == text.upper()
        assert yard.marks() == ran, "what was answered before the copy ran once"
    aside = next(yard.folder.glob("toolyard.db.before-*Z"))
    back = yard.toolyard("restore", aside.name)
    assert (back.code, "API keys 2 and 1 revoked" in back.out) == (0, True), back
    assert yard.toolyard("audit", "verify").code == 0


KILLED = "import os, sys; os.{call} = lambda *_: os._exit(9); from toolyard.cli import main; main()"


@pytest.mark.parametrize("call", ["link", "rename", "replace"])
def test_a_restore_that_is_killed_leaves_no_ledger_that_lacks_anything(call: str, yard: Yard) -> None:
    """Each time the ledger is refused, or has the key that was made last."""
    key_of(yard, "first")
    yard.toolyard("backup", "first.db")
    with yard.serving() as served:
        key_of(yard, "second")
        served.end(SIGKILL)  # so that there is a -wal to be moved
    source = KILLED.format(call=call)
    done = subprocess.run(
        [sys.executable, "-c", source, "restore", "first.db"], cwd=yard.folder, env=environment("open"), check=False
    )
    assert done.returncode == 9
    listed = yard.toolyard("keys", "list")
    assert ("second" in listed.out) if listed.code == 0 else ("part of a ledger" in listed.err), listed
    again = yard.toolyard("restore", "first.db")
    assert (again.code, "API keys 1 and 0 revoked" in again.out) == (0, True), again
    assert not list(yard.folder.glob("*.restoring*"))


def test_a_backup_that_is_killed_leaves_no_file_of_that_name(yard: Yard) -> None:
    key_of(yard, "first")
    source = KILLED.format(call="rename")
    subprocess.run(
        [sys.executable, "-c", source, "backup", "first.db"], cwd=yard.folder, env=environment("open"), check=False
    )
    assert not (yard.folder / "first.db").exists()
    assert yard.toolyard("backup", "first.db").code == 0


def test_a_bare_file_is_noticed_and_can_be_gone_on_with_on_purpose(yard: Yard) -> None:
    key_of(yard, "agent")
    with yard.serving() as served:
        (yard.folder / "bare.db").write_bytes(yard.ledger.read_bytes())
        served.end()
    for verb in (["restore", "bare.db"], ["keys", "list", "--store", "sqlite:bare.db"],
                 ["backup", "x.db", "--store", "sqlite:bare.db"]):  # fmt: skip
        ended = yard.toolyard(*verb)
        assert (ended.code, "bare.db-wal, with what was written last" in ended.err) == (2, True), ended
    taken = yard.toolyard("restore", "bare.db", "--incomplete")
    assert (taken.code, ", as far as its rows tell" in taken.out) == (0, True), taken
    assert yard.toolyard("restore", "bare.db").code == 2, "it says still what it is"


def test_all_keys_can_be_revoked_at_once(yard: Yard) -> None:
    keys = [key_of(yard, "one"), key_of(yard, "two")]
    yard.toolyard("backup", "two.db")
    done = yard.toolyard("restore", "two.db", "--revoke-keys")
    assert (done.code, "2 API keys are revoked\n" in done.out, "good again" in done.err) == (0, True, False), done
    with yard.serving() as served:
        assert [refused(served, key) for key in (*keys, None)] == [True, True, True]


SIGNED_IN = Note(SESSION, "", "", "digest", b"{}")


async def begin_on(store: Store, call_id: str, *notes: Note) -> tuple[int, bytes | None]:
    """Writes the notes and begins a call. Its number, and whether a browser is signed in."""
    await store.open()
    try:
        for note in notes:
            await store.put_note(note, 3600.0)
        made = await store.begin(new_call(call_id))
        return made.seq, await store.note(SIGNED_IN.kind, "", "", SIGNED_IN.name)
    finally:
        await store.close()


def test_no_number_comes_again_and_nobody_is_signed_in(yard: Yard) -> None:
    def begun(name: str, *notes: Note) -> tuple[int, bytes | None]:
        return asyncio.run(begin_on(SqliteStore(str(yard.ledger), name), name, *notes))

    first, is_in = begun("before", SIGNED_IN)
    assert is_in
    assert yard.toolyard("backup", "copy.db").code == 0
    last, _ = begun("since")
    assert yard.toolyard("restore", "copy.db").code == 0
    assert begun("after") == (last + 1, None)
    yard.ledger.unlink()
    assert yard.toolyard("restore", "copy.db").code == 0
    number, _ = begun("after")
    assert number > last + 1_000_000, "how far it had come is not known any more"
    shutil.copy(yard.folder / "copy.db", yard.ledger)
    assert yard.toolyard("restore", "toolyard.db").code == 0
    assert begun("after")[0] > number, "what is there is the copy, and says nothing of what came since"
    assert first == 1


def test_a_copy_is_not_served_as_it_is(yard: Yard) -> None:
    """What waits in it would go on, as if nothing had been done since."""
    key_of(yard, "agent")
    yard.toolyard("backup", "copy.db")
    shutil.copy(yard.folder / "copy.db", yard.ledger)
    refused = yard.toolyard("keys", "list")
    assert (refused.code, "to go on from it: toolyard restore toolyard.db" in refused.err) == (2, True), refused
    assert yard.toolyard("restore", "toolyard.db").code == 0
    assert "agent" in yard.toolyard("keys", "list").out


def test_a_ledger_that_another_tool_brought_back_is_settled(yard: Yard) -> None:
    """Such as a snapshot of its disk. Not while a server has it."""
    key_of(yard, "agent")

    async def begun() -> None:
        store = SqliteStore(str(yard.ledger), "node")
        await store.open()
        await store.begin(new_call("waits", queue="worker", session=DIRECT, offer="x", on_lost="unknown"))
        await store.close()

    asyncio.run(begun())
    with yard.serving() as served:
        assert yard.toolyard("restore", "--settle").code == 2
        served.end()
    done = yard.toolyard("restore", "--settle", "--revoke-keys")
    assert (done.code, "1 call had not ended" in done.out, "1 API key is revoked" in done.out) == (0, True, True), done
    assert yard.json("show", "waits")["code"] == "outcome_unknown"
    assert yard.json("restore", "--settle", "--json")["calls"] == {"unknown": 0, "goingOn": 0}
    assert yard.toolyard("audit", "verify").code == 0


def without_key(yard: Yard, *options: str) -> tuple[bytes, str]:
    """The ledger with a secret in it, in a copy; and nothing else left. The key, and what was said of it."""
    yard.toolyard("secrets", "set", "TOKEN", "--from-env", "GIVEN", GIVEN="s3cret")
    made = yard.toolyard("backup", "copy.db", *options)
    assert made.code == 0, made
    key = yard.folder / "toolyard.key"
    content = key.read_bytes()
    key.unlink()
    return content, made.err


def test_a_copy_without_its_key_file_is_noticed(yard: Yard) -> None:
    key, said = without_key(yard)
    assert "toolyard.key is not in it, and without that nobody reads the secrets in it" in said
    ledger = yard.ledger.read_bytes()
    missing = yard.toolyard("restore", "copy.db")
    assert (missing.code, "the key file is not in this copy, and it is not here either" in missing.err) == (2, True)
    (yard.folder / "toolyard.key").write_text("ab" * 32)
    (yard.folder / "toolyard.key").chmod(0o600)
    wrong = yard.toolyard("restore", "copy.db")
    assert (wrong.code, "is not the one that this copy was made with" in wrong.err) == (2, True)
    assert yard.ledger.read_bytes() == ledger, "nothing was changed"
    assert not list(yard.folder.glob("*.before-*"))
    lost = yard.toolyard("restore", "copy.db", "--without-key")
    assert lost.code == 0, lost
    assert yard.toolyard("keys", "new", "x").code == 2, "the ledger still wants its key"
    (yard.folder / "toolyard.key").write_bytes(key)
    assert yard.toolyard("restore", "copy.db").code == 0


def test_a_copy_with_its_key_file_needs_nothing_else(yard: Yard) -> None:
    key, said = without_key(yard, "--with-key")
    assert "toolyard.key is in it: whoever has this copy can read every secret" in said
    assert (yard.folder / "copy.db").stat().st_mode & 0o777 == 0o600
    (yard.folder / "toolyard.key").write_text("ab" * 32)
    done = yard.toolyard("restore", "copy.db")
    assert (done.code, "The one that was there is" in done.out) == (0, True), done
    restored = yard.folder / "toolyard.key"
    assert (restored.read_bytes(), restored.stat().st_mode & 0o777) == (key, 0o600)
    assert (next(yard.folder.glob("toolyard.key.before-*"))).read_text() == "ab" * 32
    assert yard.toolyard("audit", "verify").code == 0
    assert b"toolyard_copy" not in yard.ledger.read_bytes(), "the key is not left in the ledger"
    assert key.strip() not in yard.ledger.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for somebody else")
@pytest.mark.parametrize("is_there", [True, False], ids=["a ledger", "an empty folder"])
def test_what_root_restores_is_the_servers(yard: Yard, is_there: bool) -> None:
    """A service has a user of its own, and root looks after it."""
    without_key(yard, "--with-key")
    for path in yard.folder.glob("toolyard.*"):
        os.chown(path, SOMEBODY, SOMEBODY) if is_there else path.unlink()
    (yard.folder / "toolyard.db.lock").unlink(missing_ok=True)
    os.chown(yard.folder, SOMEBODY, SOMEBODY)
    assert yard.toolyard("restore", "copy.db").code == 0
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in yard.folder.glob("toolyard.*")}
    assert owners == dict.fromkeys(owners, (SOMEBODY, SOMEBODY))
    assert {"toolyard.db", "toolyard.key", "toolyard.db.lock"} <= owners.keys()


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        (["backup", "there.db"], "this file is there already"),
        (["backup", "no/folder.db"], "No such file or directory"),
        (["backup", "x.db", "--store", "sqlite:absent.db"], "there is no ledger here"),
        (["backup", "x.db", "--store", "sqlite::memory:"], "there is no file of sqlite::memory:"),
        (["backup", "x.db", "--with-key"], "there is no key file"),
        (["restore", "absent.db"], "there is no such file"),
        (["restore"], "name a copy, or say --settle"),
        (["restore", "there.db", "--settle"], "name a copy, or say --settle"),
        (["restore", "--settle", "--store", "sqlite:absent.db"], "there is no ledger here"),
        (["restore", "there.db"], "it is damaged: file is not a database"),
        (["restore", "empty.db"], "it is no ledger"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(verb: list[str], sentence: str, yard: Yard) -> None:
    close(opened(yard.ledger))
    (yard.folder / "there.db").write_text("what is here stays")
    (yard.folder / "empty.db").touch()
    ended = yard.toolyard(*verb)
    assert (ended.code, ended.out, sentence in ended.err) == (2, "", True), ended
    assert (yard.folder / "there.db").read_text() == "what is here stays"


def test_a_server_elsewhere_is_not_restored_here(yard: Yard) -> None:
    ended = yard.toolyard("restore", "copy.db", TOOLYARD_SERVER="http://192.0.2.1")
    assert (ended.code, "not with TOOLYARD_SERVER" in ended.err) == (2, True), ended


def test_postgresql_has_commands_of_its_own_and_they_work(postgres_server: Server, yard: Yard) -> None:
    database = postgres_server.create()
    url = postgres_server.url_of(database)
    store = {"TOOLYARD_STORE": url, "TOOLYARD_SECRET_KEY": "ab" * 32}

    def said(verb: str) -> list[str]:
        """Does what a verb says instead of doing it itself."""
        ended = yard.toolyard(verb, "monday.dump", **store)
        assert "this ledger is in PostgreSQL, whose own tool" in ended.err
        return do_as_told(ended.err, yard.folder)

    def names() -> list[str]:
        return [key["name"] for key in yard.json("keys", "list", "--json", **store)]

    def begun(name: str, *notes: Note) -> tuple[int, bytes | None]:
        return asyncio.run(begin_on(PostgresStore(url, name), name, *notes))

    yard.toolyard("keys", "new", "before", **store)
    begun("before", SIGNED_IN)
    said("backup")
    yard.toolyard("keys", "new", "since", **store)
    last, is_in = begun("since")
    assert (sorted(names()), is_in is None) == (["before", "since"], False)
    asyncio.run(execute(url, "CREATE TABLE of_a_newer_toolyard ()"))
    settle = said("restore")
    assert settle == ["restore", "--settle"]
    settled = yard.toolyard(*settle, **store)
    assert (settled.code, "API keys 1 and 0 revoked" in settled.out) == (0, True), settled
    assert "1 call had not ended, and will go on" in settled.out
    assert "call ids that were taken" in settled.err
    assert "with 'toolyard restore --settle --revoke-keys'" in settled.err
    assert names() == ["before"]
    assert asyncio.run(fetch(url, "SELECT to_regclass('of_a_newer_toolyard')")) == [(None,)]
    number, is_in = begun("after")
    assert (number > last + 1_000_000, is_in) == (True, None), "no number comes again, and nobody is signed in"
    settled = yard.toolyard(*settle, "--revoke-keys", **store)
    assert (settled.code, "API keys 0 and 1 revoked" in settled.out) == (0, True), settled
    assert yard.toolyard("audit", "verify", **store).code == 0
    assert yard.toolyard("audit", "tail", **store).out.count("toolyard restore") == 2
    (aside,) = postgres_server.moved_aside(database)
    assert len(asyncio.run(fetch(postgres_server.url_of(aside.strip('"')), "SELECT name FROM api_keys"))) == 2
    for each in (database, aside):
        postgres_server.drop(each)


def test_a_password_is_not_said(yard: Yard) -> None:
    ended = yard.toolyard("backup", "x", TOOLYARD_STORE="postgresql://yard:canary@db.example/yard?sslmode=require")
    assert "postgresql://yard@db.example/yard?sslmode=require" in ended.err
    assert "(the key is in toolyard.key: keep it apart" in ended.err
    assert "canary" not in ended.err


def test_what_a_program_reads(yard: Yard) -> None:
    key_of(yard, "agent")
    made = yard.json("backup", "copy.db", "--json")
    assert (made["holdings"]["apiKeys"], made["key"]) == (1, "file")
    done: Ended = yard.toolyard("restore", "copy.db", "--json")
    assert '"isExact": true' in done.out
    assert ADA not in done.out
