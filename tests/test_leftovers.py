"""Nothing is left of a run that was killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .leftovers import MARK
from .worker.processes import until

DEADLINE_S = 30.0
ROOT = Path(__file__).parents[1]
RUN = """
import subprocess, sys
from tests import leftovers

leftovers.watch()
child = "import signal, sys, time; {begin}; sys.stdout.write('up'); sys.stdout.flush(); {then}"
with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True) as started:
    started.stdout.read(2)
    sys.stdout.write(f"{{leftovers.folder('some')}}\\n")
    sys.stdout.flush()
"""
SLEEP = "time.sleep(600)"


@pytest.mark.parametrize(
    ("begin", "then"),
    [
        ("pass", SLEEP),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", SLEEP),
        ("pass", "signal.raise_signal(signal.SIGSTOP)"),
    ],
    ids=["good", "deaf", "paused"],
)
def test_what_it_started_ends_with_it(begin: str, then: str, tmp_path: Path) -> None:
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    run = subprocess.Popen(
        [sys.executable, "-c", RUN.format(begin=begin, then=then)],
        cwd=ROOT, env=unmarked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    assert folder.is_dir()
    run.kill()
    _, err = run.communicate(timeout=DEADLINE_S)  # its child has its errors open, too, until it is gone
    assert err == ""
    until(lambda: not folder.exists())
