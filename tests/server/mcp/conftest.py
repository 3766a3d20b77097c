"""One stage and a few servers for all the tests that leave them as they are; others start servers of their own."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .serving import ALICE, BOB, Server, Start, starting
from .stage import Stage
from .stage import stage as staged
from .talking import Client, connect

Connect = Callable[..., Client]


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with staged() as made:
        yield made


@pytest.fixture
def name() -> str:
    """Of one who comes to the stage."""
    return uuid.uuid4().hex


@pytest.fixture(scope="session")
def server(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with starting(tmp_path_factory.mktemp("mcp"), stage) as start:
        yield start()


@pytest.fixture(scope="session")
def small(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With small pages and little patience."""
    with starting(tmp_path_factory.mktemp("mcp-small"), stage) as start:
        yield start(mcp_page_size="4", sync_wait_s="0.3", answer_wait_s="600", max_body_bytes="20000")


@pytest.fixture(scope="session")
def keyed(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For two callers."""
    with starting(tmp_path_factory.mktemp("mcp-keyed"), stage) as start:
        yield start(api_keys=f"alice:{ALICE},bob:{BOB}")


@pytest.fixture
def start(stage: Stage, tmp_path: Path) -> Iterator[Start]:
    """Servers that a test may kill."""
    with starting(tmp_path, stage) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[Connect]:
    """Connects to the common server: `client("2025-11-25", sampling={})`."""
    made: list[Client] = []

    def connected(revision: str, **capabilities: Any) -> Client:
        made.append(connect(server.url, revision, **capabilities))
        return made[-1]

    yield connected
    for each in made:
        each.close()
