"""A process that dies in the middle of a call leaves no core file, and says nothing of what the call was given."""

import json
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolyard import Client, ToolyardError

from ..cli.operated import until
from ..cli.processes import Served, serving

CANARY = "core-canary-" + "7f3a91"
REVERSED = CANARY[::-1]
PATTERN = Path("/proc/sys/kernel/core_pattern")
TOOLS = '''
import os
import resource
import signal
import time
from pathlib import Path

from toolyard import Context, Toolkit, secret

kit = Toolkit("Kit")


@kit.tool(requires=secret("KEY"))
def stay(ctx: Context) -> str:
    """Holds a secret, and what it made of it, until it is let go."""
    held, derived = ctx.secret("KEY"), ctx.secret("KEY")[::-1]
    Path("held").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return held + derived


@kit.tool(requires=secret("KEY"), runs="process")
def die(ctx: Context) -> str:
    """A child that crashes with a secret at hand."""
    held, derived = ctx.secret("KEY"), ctx.secret("KEY")[::-1]
    os.kill(os.getpid(), signal.SIGSEGV)
    return held + derived


@kit.tool(runs="process")
def limit() -> int:
    """Of a child process."""
    return resource.getrlimit(resource.RLIMIT_CORE)[0]
'''
FORBIDDEN = "0" if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0 else "1"
linux = pytest.mark.skipif(not PATTERN.exists(), reason="where Linux says what becomes of core files")


def is_plain() -> bool:
    """Whether core files are files, in the folder of the process."""
    return not PATTERN.read_text(encoding="utf-8").startswith(("|", "/", "@"))


@pytest.fixture
def allowed() -> Iterator[None]:
    """As after `ulimit -c unlimited`; children begin with it."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@contextmanager
def calling(folder: Path, **variables: str) -> Iterator[Served]:
    """A server in the middle of a call."""
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    with serving("tools.py", folder=folder, variables={"PYTHONFAULTHANDLER": "1", **variables}) as served:

        def call() -> None:
            with Client(served.address, retries=0) as client, suppress(ToolyardError):
                client.call("Kit.Stay", secrets={"KEY": CANARY})

        caller = threading.Thread(target=call)
        caller.start()
        until((folder / "held").exists)
        yield served
        (folder / "go").touch()
        caller.join()


def limit_of(process: int) -> str:
    lines = Path(f"/proc/{process}/limits").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("Max core file size")).split()[4]


@linux
def test_a_server_that_crashes_leaves_nothing_of_its_calls(tmp_path: Path, allowed: None) -> None:
    with calling(tmp_path) as served:
        assert limit_of(served.process.pid) == FORBIDDEN
        assert served.call("Kit.Limit") == int(FORBIDDEN)
        body = {"tool_id": "Kit.Die", "context": {"secrets": [{"id": "KEY", "value": CANARY}]}}
        answer = json.dumps(served.request("POST", "/tools/call", body))
        assert served.end(signal.SIGSEGV) == -signal.SIGSEGV
        said = served.rest()
    assert "Fatal Python error" in said
    assert "in stay" in said, "it says where it was"
    assert "in die" in said
    assert CANARY not in said + answer
    assert REVERSED not in said + answer
    assert not list(tmp_path.glob("core*"))
    for path in filter(Path.is_file, tmp_path.iterdir()):
        assert CANARY.encode() not in path.read_bytes(), path.name


@linux
def test_whoever_wants_one_gets_it(tmp_path: Path, allowed: None) -> None:
    with calling(tmp_path, TOOLYARD_CORE_FILES="true") as served:
        assert limit_of(served.process.pid) != FORBIDDEN
        if is_plain():
            assert served.end(signal.SIGABRT) == -signal.SIGABRT
            (core,) = tmp_path.glob("core*")
            assert CANARY.encode() in core.read_bytes(), "this is why there are none"
            core.unlink()
