"""What an upstream's tools are called here: `Upstream.tool`, whatever the upstream calls them.

A name depends on the upstream and its own list alone, so that no other upstream's arrival changes it. Characters that
an id cannot have become `_`; a short hash of the upstream's own name tells apart what would become the same.
"""

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from ..model.tool import WIRE_NAME
from ..model.upstream import AS_THEY_ARE, Upstream

LONGEST_WIRE_NAME = 128
_HASH_LENGTH = 8
_strange = re.compile(r"[^A-Za-z0-9_]").sub


class ServedName(Struct, frozen=True):
    """The second half of a tool's id, and its name on the wires."""

    name: str
    wire_name: str


def served_names(upstream: Upstream, own: Iterable[str]) -> dict[str, ServedName]:
    """By the upstream's own names. One that stands twice in its list is one."""
    names = list(dict.fromkeys(own))
    longest = LONGEST_WIRE_NAME - len(upstream.name) - 1
    plain = {name: _strange("_", name) for name in names}
    often = Counter(plain.values())
    served: dict[str, ServedName] = {}
    for name, made in plain.items():
        # A name that needs no change keeps it: the hash goes to those that came to look like it.
        if (often[made] > 1 and made != name) or len(made) > longest or not made:
            made = f"{made[: longest - _HASH_LENGTH - 1]}_{sha256(name.encode()).hexdigest()[:_HASH_LENGTH]}"
        is_bare = upstream.names == AS_THEY_ARE and WIRE_NAME(name) is not None
        served[name] = ServedName(made, name if is_bare else f"{upstream.name}_{made}")
    return served
