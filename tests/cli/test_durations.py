"""Times as people write them."""

import pytest

from toolyard.cli.support.options import seconds_in
from toolyard.model.errors import SetupError


@pytest.mark.parametrize(
    ("given", "seconds"), [("45s", 45), ("10m", 600), ("12h", 43200), ("30d", 2592000), ("36500d", 36500 * 86400)]
)
def test_a_time_has_a_unit(given: str, seconds: float) -> None:
    assert seconds_in(given, "--expires") == seconds


@pytest.mark.parametrize(
    "given", ["", "30", "d", "30 d", "-1d", "1.5h", "1d12h", "30D", "１d", "1d\n", "99999999999d", "1w"]
)
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(SetupError, match=r"^--expires must be a time such as 30d, 12h, 10m or 45s, got "):
        seconds_in(given, "--expires")


@pytest.mark.parametrize("given", ["0s", "0d", "36501d"])
def test_no_time_and_endless_time_are_refused(given: str) -> None:
    with pytest.raises(SetupError, match=r"^--expires must be at least 1s and at most 36500d, got "):
        seconds_in(given, "--expires")
