"""How long, as people write it on the command line: 30d, 12h, 10m, 45s."""

import re

from ..model.errors import SetupError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 36500 * _UNITS["d"]
_duration = re.compile(r"([0-9]{1,10})([smhd])").fullmatch


def seconds_in(given: str, option: str) -> float:
    """Never none, and at most a hundred years. Raises SetupError, which names the option."""
    found = _duration(given)
    if found is None:
        raise SetupError(f"{option} must be a time such as 30d, 12h, 10m or 45s, got {given!r}")
    seconds = int(found[1]) * _UNITS[found[2]]
    if not 0 < seconds <= _LONGEST_S:
        raise SetupError(f"{option} must be at least 1s and at most 36500d, got {given!r}")
    return seconds
