"""A server for an operator to look after: its tools leave marks and wait until they are let go, its callers are two."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import pytest

from toolyard import Client, ToolyardError

from .processes import DEADLINE_S, Ended, Served, serving, toolyard

TOOLS = '''
import time
from pathlib import Path

from toolyard import Toolkit, ToolError, secret

kit = Toolkit("Kit", version="1.0.0")


@kit.tool
def stay(text: str) -> str:
    """Leaves a mark, and stays until it is let go."""
    with open("marks", "a") as marks:
        marks.write(text + "\\n")
    while not Path("go").exists():
        time.sleep(0.02)
    return text.upper()


@kit.tool
def quick(text: str) -> str:
    """Says it again."""
    return text


@kit.tool
def later(seconds: float) -> float:
    """Takes its time."""
    time.sleep(seconds)
    return seconds


@kit.tool
def refuse() -> None:
    """Fails, and says that trying again may help."""
    raise ToolError("It is closed", can_retry=True, retry_after_ms=10)


@kit.tool(requires=secret("KEY"))
def needy(text: str) -> str:
    """Needs a secret, and stays."""
    return stay(text)
'''
ADA, BOB = "ty_ada_0123456789abcdef", "ty_bob_0123456789abcdef"
CALLERS = {"TOOLYARD_API_KEYS": f"ada:{ADA},bob:{BOB}"}


class Yard:
    """A folder with tools and, most of the time, a server in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tools.py").write_text(TOOLS, encoding="utf-8")

    @property
    def ledger(self) -> Path:
        return self.folder / "toolyard.db"

    @property
    def admin(self) -> Path:
        return self.folder / "toolyard.db.admin"

    def serving(self, **variables: str) -> Any:
        return serving("tools.py", folder=self.folder, variables=variables)

    def toolyard(self, *arguments: str, **variables: str) -> Ended:
        return toolyard(*arguments, folder=self.folder, variables=variables)

    def json(self, *arguments: str, **variables: str) -> Any:
        """What a verb that does what it is told prints."""
        ended = self.toolyard(*arguments, **variables)
        assert (ended.code, ended.err) == (0, "")
        return msgspec.json.decode(ended.out)

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def marks(self) -> list[str]:
        marks = self.folder / "marks"
        return marks.read_text().splitlines() if marks.exists() else []

    @contextmanager
    def calling(self, served: Served, text: str, tool: str = "Kit.Stay", key: str | None = None) -> Iterator[None]:
        """A call of that text and id, which is under way as long as the block lasts, or until it ends."""
        before = len(self.marks())

        def call() -> None:
            with Client(served.address, retries=0, key=key) as client, suppress(ToolyardError):
                client.call(tool, {"text": text}, call_id=text, secrets={"KEY": "canary-91c4"})

        caller = threading.Thread(target=call)
        caller.start()
        until(lambda: len(self.marks()) > before)
        yield
        caller.join()

    def lose(self, call_id: str, tool: str = "Kit.Stay") -> None:
        """A call in whose middle the server is killed."""
        with self.serving() as served, self.calling(served, call_id, tool):
            assert served.end(SIGKILL) == -SIGKILL

    def lose_for_good(self, call_id: str, tool: str = "Kit.Stay") -> None:
        """The same, and the next server has found out. It is gone again, too."""
        self.lose(call_id, tool)
        with self.serving() as served:
            assert served.request("GET", f"/v1/calls/{call_id}")["code"] == "outcome_unknown"
            assert served.end() == 0


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)
