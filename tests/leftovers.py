"""What tests start ends with them, also where a run is killed and cleans up nothing: servers, browsers, PostgreSQL.

Whatever a run starts inherits a mark in its environment, and so does what that starts. A process beside the run waits
until the run is gone, and then ends everything that has the mark. It is not a child's business to look after its
parent: many of them are not ours, some detach themselves, and some are paused.
"""

import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MARK = "RUN_OF_TESTS"
PREFIX = "toolyard-run-"
DISK, MEMORY = Path(tempfile.gettempdir()), Path("/dev/shm")
ENOUGH = 2**31
GRACE_S, POLL_S = 2.0, 0.05


def watch() -> None:
    """Marks this process's children, from now on. In a process that has a mark somebody waits already."""
    if MARK in os.environ or not Path("/proc/self/environ").exists():
        return
    os.environ[MARK] = f"{PREFIX}{secrets.token_hex(6)}"
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), os.environ[MARK]],
        env={"TMPDIR": str(DISK)},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def folder(what: str, place: Path = DISK) -> Path:
    """A new temporary folder. It is removed after a run that is killed, too."""
    return Path(tempfile.mkdtemp(prefix=f"{os.environ.get(MARK, PREFIX)}-{what}-", dir=place))


def memory() -> Path:
    """A place that is no disk, where there is one with enough room."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH
    return MEMORY if is_roomy else DISK


def end_after(run: int, mark: str) -> None:
    """Waits for the end of a process; then ends and removes what has its mark."""
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(run)], [], [])
    deadline = time.monotonic() + GRACE_S
    tell(signal.SIGTERM, mark)
    while time.monotonic() < deadline and marked(mark):
        time.sleep(POLL_S)
    while tell(signal.SIGKILL, mark):
        time.sleep(POLL_S)
    for place in (DISK, MEMORY):
        for left in place.glob(f"{mark}-*"):
            shutil.rmtree(left, ignore_errors=True)


def tell(number: signal.Signals, mark: str) -> list[int]:
    """Whom it told."""
    found = marked(mark)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, number)
    return found


def marked(mark: str) -> list[int]:
    """The processes that have it."""
    found, line = [], f"{MARK}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if line in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


if __name__ == "__main__":
    end_after(int(sys.argv[1]), sys.argv[2])
