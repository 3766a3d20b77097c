"""`toolyard worker`, as far as it does not need a server; `tests/worker` has the rest."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from toolyard.cli.verbs.worker import named

from .processes import Ended


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.py"], "toolyard: nowhere.py does not exist"),
        (["empty.py"], "toolyard: empty.py has no tools to offer"),
        (["empty.py", "--server", "yard.example"], "toolyard: --server must be an address such as"),
        (["empty.py", "--name", "a b"], "toolyard: 'a b' cannot name a worker; use"),
    ],
)
def test_what_cannot_be_done_as_asked(
    here: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.py").write_text("from toolyard import Toolkit\n\nkit = Toolkit('Empty')\n", encoding="utf-8")
    ended = here("worker", *arguments)
    assert ended.code == 2
    assert ended.err.startswith(sentence)


def test_a_name_says_where_the_worker_is_and_is_its_own() -> None:
    made = named(None)
    assert re.sub("[^A-Za-z0-9_.-]+", "-", socket.gethostname())[:64] in made
    assert str(os.getpid()) in made
    assert made != named(None)
