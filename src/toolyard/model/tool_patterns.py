"""Which of the tools that a worker offers the patterns of a claim mean.

A worker may offer thousands of tools and name a hundred patterns, and its claims come all the time: each pattern tried
on each tool would take a second. So an id is looked up, a pattern whose only `*` is at its end is a range of the sorted
names, what is left has a bound (`MOST_TRIES`), and what was found is remembered.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from .worker import reference_of

MOST_TRIES = 5_000
"""How often the patterns with a `*` elsewhere than at their end are tried: their number times that of the tools."""
LAST = "\U0010ffff"
"""Sorts after whatever may go on in a name."""


def tries(offers: frozenset[str], patterns: Sequence[str]) -> int:
    """How often patterns would be tried on names."""
    return len(offers) * sum("*" in pattern[:-1] for pattern in patterns)


@lru_cache(maxsize=128)
def offers_named(offers: frozenset[str], patterns: tuple[str, ...]) -> list[str]:
    """The offers of tools that a pattern means, by their ids, or by their ids and versions; without patterns, all. In
    order, and not to be changed."""
    ordered = sorted(offers)  # each begins with the tool's reference
    if not patterns:
        return ordered
    named: set[str] = set()
    for pattern in patterns:
        if "*" in pattern[:-1]:
            named.update(offer for offer in ordered if _fits(pattern.split("*"), reference_of(offer)))
            continue
        start = pattern.removesuffix("*")
        few = ordered[bisect_left(ordered, start) : bisect_left(ordered, start + LAST)]
        named.update(few if pattern.endswith("*") else (offer for offer in few if _is(start, reference_of(offer))))
    return sorted(named)


def _is(name: str, reference: str) -> bool:
    return name in (reference, reference.partition("@")[0])


def _fits(parts: list[str], reference: str) -> bool:
    """Whether the texts between the stars are in a tool's reference, or in its id, one after the other."""
    return _are_in(parts, reference) or _are_in(parts, reference.partition("@")[0])


def _are_in(parts: list[str], name: str) -> bool:
    head, *middle, tail = parts
    at, end = len(head), len(name) - len(tail)
    if at > end or not name.startswith(head) or not name.endswith(tail):
        return False
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
