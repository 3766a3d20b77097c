"""Rollups as rows, and rows of several nodes as one rollup."""

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import msgspec

from ..model.json_value import decode_as
from .values import Rollup

_encode = msgspec.json.Encoder().encode


def rollup_values(rollup: Rollup, node: str) -> tuple[Any, ...]:
    """A row. Histograms end with their last time that a call took."""
    buckets = list(rollup.buckets)
    while buckets and not buckets[-1]:
        buckets.pop()
    return (
        rollup.minute, node, rollup.wire, rollup.tool, rollup.code, rollup.calls, rollup.total_s, _encode(buckets)
    )  # fmt: skip


def added_up(rows: Iterable[Any]) -> list[Rollup]:
    """All nodes' rows as one for each minute, wire, tool and code, in that order."""
    found: dict[tuple[int, str, str, str], Rollup] = {}
    for minute, wire, tool, code, calls, total_s, json in rows:
        key, buckets = (minute, wire, tool, code), decode_as(json, tuple[int, ...])
        if (before := found.get(key)) is not None:
            calls, total_s = before.calls + calls, before.total_s + total_s
            buckets = tuple(one + other for one, other in zip_longest(before.buckets, buckets, fillvalue=0))
        found[key] = Rollup(*key, calls, total_s, buckets)
    return [found[key] for key in sorted(found)]
