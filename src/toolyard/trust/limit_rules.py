"""Limits as they stand in the settings, and those that hold where nothing is said."""

from collections.abc import Mapping
from typing import Any

from .limits import PER, Limit
from .rules import WrongTable, each_table, only, patterns_of, texts_of, who_of

MOST = 10**6
DEFAULTS = (
    Limit("calls of one caller", ("caller",), calls_per_minute=600, at_once=64),
    Limit("calls from one address", ("address",), calls_per_minute=1200),
)
"""For a server that others can reach."""
OVER_PIPES = (Limit("calls over the pipe", ("caller",), calls_per_minute=6000, at_once=256),)
"""For a server that one program started. No person's work comes near it; a program that has run wild does."""


def read_limits(given: Any) -> list[Limit]:
    """Of `limits`. Raises ValueError."""
    read = each_table(given, "limits", _limit)
    names = [limit.name for limit in read]
    if twice := {name for name in names if names.count(name) > 1}:
        raise WrongTable(f"there are two limits called {min(twice)!r}; give each a name of its own")
    return read


def _limit(table: Mapping[str, Any], at: str) -> Limit:
    only(table, at, "who", "tools", "per", "calls_per_minute", "at_once", "name")
    per = texts_of(table.get("per", "caller"), f"{at}.per")
    if not per or not set(per) <= set(PER):
        raise ValueError(f"{at}.per must be one or some of {', '.join(PER)}, got {table.get('per')!r}")
    calls, at_once = (_number(table.get(name), f"{at}.{name}") for name in ("calls_per_minute", "at_once"))
    if calls is None and at_once is None:
        raise ValueError(f"{at} must have calls_per_minute, at_once or both")
    name = table.get("name", at)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{at}.name must be text")
    return Limit(name, per, who_of(table.get("who", {}), f"{at}.who"), patterns_of(table, at), calls, at_once)


def _number(given: Any, at: str) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST):
        return given
    raise ValueError(f"{at} must be a whole number from 1 to {MOST}, got {given!r}")
