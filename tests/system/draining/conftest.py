"""Nodes that end with their test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .serving import Node

Nodes = Callable[..., Node]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Nodes]:
    """Starts nodes, all in one folder."""
    made: list[Node] = []

    def start(**settings: str) -> Node:
        found = Node(tmp_path, **settings)
        made.append(found)
        found.start()
        return found

    yield start
    for each in made:
        each.end()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger that a server finds again when it comes back."""
    return "sqlite:ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
