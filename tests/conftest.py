"""For every test.

Apps that are mounted in this process keep their ledger in memory. Ctrl-C means what it means in a terminal, also where
the tests were started in the background (there it is ignored, and children inherit that). What the tests start ends
with them.

The bytecode of toolyard and of the tests is kept, wherever the tests run: without it every process that they start
compiles toolyard anew. That of tools which a test writes is not: two versions of a second look the same to Python. The
processes among which tests are divided keep it until they have read this, too: pytest has other code for the modules of
its plugins than Python has.
"""

import compileall
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leftovers
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

SOURCES = Path(__file__).parents[1] / "src"

os.environ["TOOLYARD_STORE"] = "sqlite::memory:"
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
sys.dont_write_bytecode = True
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # in the one process that starts the others
        if getattr(config.option, "dist", "no") != "no":
            del os.environ["PYTHONDONTWRITEBYTECODE"]
        leftovers.watch()
        compileall.compile_dir(SOURCES, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    sys.dont_write_bytecode = False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = True
        gc.freeze()  # thousands of tests, which are not garbage: nobody need look at them again and again
