"""Servers for the tests of the ledger."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from .serving import Server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers in a folder, with these settings (`TOOLYARD_…`), and ends them afterwards."""
    made: list[Server] = []

    def started(**settings: str) -> Server:
        server = Server(tmp_path, **settings)
        made.append(server)
        server.start()
        return server

    yield started
    for server in made:
        with suppress(ProcessLookupError):
            server.kill()


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start()
