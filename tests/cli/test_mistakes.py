"""What people mistype: each is refused before anything is done, with what was wrong and what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .processes import Ended, Served, toolyard

Run = Callable[..., Ended]
JWT = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", ""], "CALL_ID must have 1 to 256 characters and no control characters, got ''"),
        (["cancel", ""], "CALL_ID must have 1 to 256 characters"),
        (["resolve", "", "--rerun"], "CALL_ID must have 1 to 256 characters"),
        (["approve", ""], "ID is empty; 'toolyard approvals' shows those of the calls that wait"),
        (["new", ""], "the project has no name; say one, for example toolyard new mytools"),
        (["calls", "--state", "WAT"], "--state must be one of pending, processing, complete, error, got 'WAT'"),
        (["calls", "--limit", "0"], "--limit must be a whole number from 1 to 200, got '0'"),
        (["calls", "--limit", "x"], "--limit must be a whole number from 1 to 200, got 'x'"),
        (["show", "a", "--wait", "-1"], "--wait must be a number of seconds, 0 or more, got '-1'"),
        (["show", "a", "--wait", "nan"], "--wait must be a number of seconds, 0 or more, got 'nan'"),
        (["audit", "tail", "-n", "0"], "-n must be a whole number from 1 to 10000, got '0'"),
        (["explain", "A.B", "--as", "x", "--key", "agent"], "--as and --key are two callers; name one of them"),
        (["token", "--sub", "x", "--tenant", ""], "--tenant is empty; leave it out for the usual one"),
        (["token", "--sub", "x", "--scope", ""], "--scope must be one word"),
        (["token", "--sub", "x", "--aud", ""], "--aud is empty; leave it out for the usual one"),
        (["call", "A.B", "a=1", "a=2"], "a is given twice; give it once"),
        (["call", "A.B", "--secret", "K="], "--secret K= has no value; is the variable set that it should come from?"),
        (["call", "A.B", "--token", "google="], "--token google= has no value"),
        (["call", "A.B", "--token", "google"], "'google' is not PROVIDER=TOKEN"),
        (
            ["audit", "export", "--since", "1d", "--until", "7d"],
            "there is nothing between --since 1d and --until 7d: --until must be the shorter one",
        ),
        (["keys", "new", "a", "--store", "sqlite:no/where.db"], "no/where.db: the ledger's folder no does not exist"),
        (["keys", "list", "--store", "sqlite:."], "--store must be sqlite:FILE or postgresql://USER@HOST/DATABASE"),
        (["serve", "--host", "not a host"], "--host must be an address of this machine, such as 127.0.0.1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_is_refused(here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLYARD_JWT_SECRET", JWT)
    ended = here(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"toolyard: {said}")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_call_id_is_not_no_call_id(here: Run, server: Served) -> None:
    ended = here("call", "Kit.Nothing", "-v", "--call-id", "", "--server", server.address)
    assert (ended.code, "call_id must have 1 to 256 characters" in ended.err) == (1, True)


@pytest.mark.parametrize("verb", [["calls"], ["show", "k"]])
def test_without_a_ledger_the_server_of_the_settings_is_asked(tmp_path: Path, verb: list[str]) -> None:
    (tmp_path / "toolyard.toml").write_text("port = 18999\n")
    ended = toolyard(*verb, folder=tmp_path)
    assert ended.code != 0
    assert "http://127.0.0.1:18999" in ended.err
    assert ":8000" not in ended.err
