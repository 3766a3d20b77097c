"""`toolyard doctor`: all is well, or each thing that is not is named with what to do about it; it changes nothing."""

import json
import os
import shutil
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from ..server.certificates import signed
from .operated import Yard, yard
from .processes import Ended, serving

__all__ = ["yard"]

LONG = timedelta(days=90)
SOMEBODY = 65534
"""Nobody in particular, and not root."""
Doctor = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def folder(tmp_path: Path, here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a ledger and its key, and a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TOOLYARD_PORT", str(free.getsockname()[1]))
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    assert here("keys", "new", "agent").code == 0
    return tmp_path


@pytest.fixture
def doctor(here: Callable[..., Ended]) -> Doctor:
    """What it finds that is not well, by what it looked at."""

    def examine(*arguments: str) -> dict[str, dict[str, Any]]:
        ended = here("doctor", "--json", *arguments)
        assert ended.out, ended
        said = json.loads(ended.out)
        ill = {each["check"]: each for each in said["checks"] if not each["well"]}
        assert (ended.code, said["well"]) == ((1, False) if ill else (0, True))
        assert all(each["do"] for each in ill.values())
        return ill

    return examine


def content(folder: Path) -> dict[str, bytes]:
    """What is in the files, without those that SQLite makes beside whoever reads."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


def test_all_is_well_without_a_server_and_nothing_is_changed(folder: Path, doctor: Doctor) -> None:
    before = content(folder)
    assert doctor() == {}
    assert content(folder) == before


def test_all_is_well_in_an_empty_folder(folder: Path, doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert doctor("--store", "sqlite:empty/ledger.db") == {}
    assert list((tmp_path / "empty").iterdir()) == []


def test_all_is_well_beside_a_server(yard: Yard) -> None:
    yard.folder.chmod(0o700)
    with yard.serving() as served:
        port = served.address.rpartition(":")[2]
        ended = yard.toolyard("doctor", TOOLYARD_PORT=port)
        assert (ended.code, ended.err) == (0, ""), ended
        assert "a server has it, and answers\n" in ended.out
        assert f"a toolyard answers at 127.0.0.1:{port}\n" in ended.out
        served.end()


def test_all_is_well_beside_a_server_that_speaks_https(yard: Yard) -> None:
    yard.folder.chmod(0o700)
    certificate = signed(yard.folder, lasts=LONG)
    with serving("tools.py", folder=yard.folder, variables=certificate.variables) as served:
        port = next(line for line in served.said if "OXP" in line).rpartition(":")[2]
        ended = yard.toolyard("doctor", TOOLYARD_PORT=port, **certificate.variables)
        assert (ended.code, f"a toolyard answers at 127.0.0.1:{port}\n" in ended.out) == (0, True), ended
        assert f"{certificate.cert_file} is good until" in ended.out
        served.end()


def test_settings_that_cannot_be_read(folder: Path, doctor: Doctor) -> None:
    (folder / "toolyard.toml").write_text("prot = 8000\n")
    assert "did you mean port?" in doctor()["settings"]["found"]


def test_settings_that_keep_a_server_from_starting(
    folder: Path, doctor: Doctor, here: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them can be read, and `toolyard serve` ends with a sentence: this one."""
    (folder / "empty").mkdir()
    for variables, sentence in (
        ({"TOOLYARD_HOST": "0.0.0.0", "TOOLYARD_STORE": "sqlite:empty/ledger.db"}, "no authentication is set"),
        ({"TOOLYARD_SERVE_PROCESSES": "2"}, "SQLite lets one process write"),
        ({"TOOLYARD_TOOLS": "nowhere.py:kit"}, "nowhere.py does not exist"),
    ):
        with monkeypatch.context() as given:
            for name, value in variables.items():
                given.setenv(name, value)
            found = doctor()["settings"]["found"]
            refused = here("serve")
        assert sentence in found
        assert (refused.code, refused.err) == (2, f"toolyard: {found}\n")
    monkeypatch.setenv("TOOLYARD_HOST", "0.0.0.0")
    assert doctor() == {}, "the ledger has a key"


def test_a_ledger_that_lacks_its_wal(folder: Path, doctor: Doctor) -> None:
    ledger = bytearray((folder / "toolyard.db").read_bytes())
    ledger[68:72] = b"tyop"
    (folder / "toolyard.db").write_bytes(ledger)
    assert "toolyard.db-wal, with what was written last, is not beside it" in doctor()["ledger"]["found"]
    assert not (folder / "toolyard.db-wal").exists()


def test_a_damaged_ledger(folder: Path, doctor: Doctor) -> None:
    ledger = bytearray((folder / "toolyard.db").read_bytes())
    for page in range(2, len(ledger) // 4096):
        ledger[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    (folder / "toolyard.db").write_bytes(ledger)
    found = doctor()["ledger"]
    assert "damaged" in found["found"]
    assert "toolyard restore FILE" in found["do"]


def test_no_ledger_at_all(folder: Path, doctor: Doctor) -> None:
    (folder / "text").write_text("this is no ledger" * 100)
    assert "not a database" in doctor("--store", "sqlite:text")["ledger"]["found"]
    assert "does not exist" in doctor("--store", "sqlite:absent/ledger.db")["ledger"]["found"]


def test_a_folder_in_place_of_a_ledger(folder: Path, doctor: Doctor) -> None:
    (folder / "ledger").mkdir()
    ill = doctor("--store", "sqlite:ledger")
    assert (ill["ledger"]["found"], ill["ledger"]["do"]) == ("ledger is a folder", "correct the setting store")


@pytest.fixture
def as_somebody(folder: Path, doctor: Doctor) -> Doctor:
    """What it finds as another user, whose everything in the folder is but for what is root's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away, and be somebody else")
    doctor()  # whatever has to be loaded may be where somebody else cannot read
    for each in folder.parents:
        each.chmod(each.stat().st_mode | 0o011)

    def examine(*names: str) -> dict[str, dict[str, Any]]:
        for each in (folder, *folder.iterdir()):
            os.chown(each, 0 if each.name in names else SOMEBODY, -1)
        os.setresuid(SOMEBODY, SOMEBODY, 0)
        try:
            return doctor("--store", "sqlite:barred/ledger.db") if "barred" in names else doctor()
        finally:
            os.setresuid(0, 0, 0)

    return examine


def test_files_of_another_user(folder: Path, as_somebody: Doctor) -> None:
    """Whoever looks after a server is often another user than it, and must not be sent to a copy for that."""
    (folder / "barred").mkdir(0o700)
    for names, check, found in (
        (["toolyard.key"], "key", "this user may not read toolyard.key"),
        (["toolyard.db", "toolyard.key"], "ledger", "this user may not read toolyard.db"),
        (["barred"], "ledger", f"this user may not look into {folder}/barred"),
    ):
        ill = as_somebody(*names)[check]
        assert (ill["found"], ill["do"]) == (found, "run this as the server's user, or as root")


def test_a_ledger_of_a_newer_toolyard(folder: Path, doctor: Doctor) -> None:
    with apsw.Connection("toolyard.db") as ledger:
        ledger.execute("PRAGMA user_version = 999")
    assert doctor()["ledger"]["do"] == "upgrade toolyard"


def test_a_key_that_is_lost(folder: Path, doctor: Doctor) -> None:
    (folder / "toolyard.key").unlink()
    assert "is missing" in doctor()["key"]["found"]
    assert not (folder / "toolyard.key").exists()


def test_a_key_of_another_ledger(folder: Path, doctor: Doctor) -> None:
    (folder / "toolyard.key").write_text("ab" * 32)
    assert "no key in toolyard.key fits this ledger" in doctor()["key"]["found"]


def test_a_key_that_is_none(folder: Path, doctor: Doctor) -> None:
    (folder / "toolyard.key").write_text("nonsense")
    assert "64 hexadecimal digits" in doctor()["key"]["found"]


@pytest.mark.parametrize(("name", "check"), [("toolyard.key", "key"), ("toolyard.db", "rights")])
def test_files_that_others_may_read(name: str, check: str, folder: Path, doctor: Doctor) -> None:
    (folder / name).chmod(0o644)
    assert doctor()[check]["do"].startswith(f"chmod 600 {name}")


def test_a_folder_that_others_may_write_to(folder: Path, doctor: Doctor) -> None:
    folder.chmod(0o777)
    assert doctor()["rights"]["do"] == f"chmod go-w {folder}"


def test_api_keys_that_end(folder: Path, doctor: Doctor, here: Callable[..., Ended]) -> None:
    here("keys", "new", "later", "--expires", "90d")
    assert doctor() == {}
    here("keys", "new", "soon", "--expires", "3d")
    assert "soon expires on" in doctor()["api keys"]["found"]
    here("keys", "revoke", "soon")
    assert doctor() == {}


def test_a_port_that_another_program_has(folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("TOOLYARD_PORT", str(other.getsockname()[1]))
        monkeypatch.setattr("toolyard.operator.doctor.ASKED_S", 0.05)
        assert "another program has" in doctor()["port"]["found"]


def test_an_address_of_another_machine(folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_HOST", "192.0.2.1")
    assert "cannot be used" in doctor()["port"]["found"]


def test_a_clock_that_went_back(folder: Path, doctor: Doctor) -> None:
    with apsw.Connection("toolyard.db") as ledger:
        ledger.execute("UPDATE api_keys SET created = ?", (time.time() + 3600,))
    assert "this machine's clock went back" in doctor()["clock"]["found"]


def test_a_disk_that_is_full(folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolyard.operator.doctor.LEAST_FREE", shutil.disk_usage(folder).total)
    assert "make room" in doctor()["disk"]["do"]


def test_certificates(folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in signed(folder, "long", lasts=LONG).variables.items():
        monkeypatch.setenv(name, value)
    assert doctor() == {}
    for name, value in signed(folder, "short").variables.items():
        monkeypatch.setenv(name, value)
    assert "have it renewed" in doctor()["certificate"]["do"]
    (folder / "short.key").write_text("")
    monkeypatch.setenv("TOOLYARD_TLS_KEY", str(folder / "short.key"))
    assert "tls_key" in doctor()["certificate"]["found"]


def test_postgresql(folder: Path, doctor: Doctor, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_SECRET_KEY", "ab" * 32)
    monkeypatch.setenv("TOOLYARD_STORE", postgres_url)
    assert doctor() == {}


def test_postgresql_with_a_ledger_in_it(
    folder: Path, here: Callable[..., Ended], doctor: Doctor, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLYARD_SECRET_KEY", "ab" * 32)
    monkeypatch.setenv("TOOLYARD_STORE", postgres_url)
    here("keys", "new", "soon", "--expires", "3d")
    assert set(doctor()) == {"api keys"}
    assert "with asyncpg" in here("doctor").out
    monkeypatch.setattr("toolyard.operator.doctor.CLOCKS_DIFFER_S", -1.0)
    assert "the database's is" in doctor()["clock"]["found"]
    monkeypatch.setenv("TOOLYARD_SECRET_KEY", "cd" * 32)
    assert "no key in secret_key fits" in doctor()["key"]["found"]
    (folder / "toolyard.key").unlink()
    monkeypatch.delenv("TOOLYARD_SECRET_KEY")
    assert doctor()["key"]["do"].startswith("give this node the secret_key of the others")


def test_a_database_that_is_away(folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_STORE", "postgresql://yard:canary@127.0.0.1:1/yard")
    ill = doctor()
    assert "the database answers" in ill["ledger"]["do"]
    assert "canary" not in str(ill)
