"""Two real servers for the whole run: one as it comes, one with little patience."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.serving import running

SERVED = str(Path(__file__).with_name("served.py"))
IMPATIENT = {
    "TOOLYARD_HEADER_TIMEOUT_S": "0.4",
    "TOOLYARD_BODY_TIMEOUT_S": "0.4",
    "TOOLYARD_KEEP_ALIVE_S": "0.4",
}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. Its limits are the defaults."""
    with running("open", tmp_path_factory.mktemp("server"), [SERVED]) as address:
        yield address


@pytest.fixture(scope="session")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running("open", tmp_path_factory.mktemp("impatient"), [SERVED], IMPATIENT) as address:
        yield address
