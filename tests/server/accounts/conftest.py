"""One provider for all."""

from collections.abc import Iterator

import pytest

from ...conformance.serving import free_port
from ...trust.credentials.identity_provider import Provider, having_accounts
from .signing import SIGNED_IN
from .stage import CALLBACK


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with having_accounts(free_port(), [CALLBACK, SIGNED_IN], tmp_path_factory.mktemp("accounts") / "log") as started:
        yield started
