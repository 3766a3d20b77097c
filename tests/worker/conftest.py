"""A stage, a server, and calls that are under way."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .processes import Yard, yard
from .stage import Stage, stage

Calling = Callable[[str, str], "Future[Any]"]


@pytest.fixture(name="stage")
def _stage() -> Iterator[Stage]:
    with stage() as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Yard]:
    """With leases that run out soon."""
    with yard(tmp_path, {"TOOLYARD_LEASE_S": "3"}) as made:
        yield made


@pytest.fixture
def calling(server: Yard) -> Iterator[Calling]:
    """Calls while the test goes on."""
    with ExitStack() as stack:
        yield lambda tool, name: stack.enter_context(server.calling(tool, name))
