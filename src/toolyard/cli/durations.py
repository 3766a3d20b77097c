"""Durations as people write them: 30d, 12h, 10m, 45s."""

import re

import typer

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def seconds_of(text: str) -> float:
    """Raises BadParameter."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([dhms])", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no duration; write 30d, 12h, 10m or 45s")
    return float(found[1]) * UNITS[found[2]]
