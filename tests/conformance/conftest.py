"""One server of each kind for the whole run, started when the first row needs it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from .serving import running

Address = Callable[[str], str]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    started: dict[str, str] = {}
    with ExitStack() as servers:

        def address_of(server: str) -> str:
            if server not in started:
                folder = tmp_path_factory.mktemp(f"conformance-{server}")
                started[server] = servers.enter_context(running(server, folder))
            return started[server]

        yield address_of
