"""Rules for approvals as they stand in the settings."""

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from ..model.predicate import Predicate
from .approvals import ApprovalRule
from .rules import each_table, only, patterns_of, who_of


def read_approvals(given: Any) -> list[ApprovalRule]:
    """Of `approvals`. Raises ValueError."""
    return each_table(given, "approvals", _rule)


def _rule(table: Mapping[str, Any], at: str) -> ApprovalRule:
    only(table, at, "who", "tools", "over", "when", "ask", "name")
    ask, name = table.get("ask", True), table.get("name", at)
    if not isinstance(ask, bool):
        raise ValueError(f"{at}.ask must be true or false, got {ask!r}")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{at}.name must be text")
    patterns, who = patterns_of(table, at), who_of(table.get("who", {}), f"{at}.who")
    return ApprovalRule(patterns, who, _over(table, at), _when(table, at), ask, name)


def _over(table: Mapping[str, Any], at: str) -> dict[str, float]:
    over = table.get("over", {})
    numbers = isinstance(over, Mapping) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) for value in over.values()
    )
    if not numbers:
        raise ValueError(f"{at}.over must be a table of finite numbers such as {{ cents = 1000 }}")
    return dict(over)


def _when(table: Mapping[str, Any], at: str) -> Predicate | None:
    if "when" not in table:
        return None
    module, _, function = str(table["when"]).partition(":")
    if not module or not function:
        raise ValueError(f"{at}.when must name a function, such as rules:is_large")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # where the settings are, and the tools
    try:
        found: Predicate = getattr(import_module(module), function)
    except (Exception, SystemExit) as error:  # its author's code
        raise ValueError(f"{at}.when: {table['when']} cannot be had: {type(error).__name__}: {error}") from None
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ValueError(f"{at}.when: {table['when']} must be a function that is not async")
    return found
