"""Upstreams as operators look at them: how each fares, and what it lists now, in both directions."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..contract import JSON, Reply, Request
from ..errors import encode
from ..lifecycle.calls import query_of

PATH = "/v1/admin/upstreams"
IDLE = "idle"
"""The state of an upstream where no server runs."""


class UpstreamStatus(Struct, frozen=True, rename="camel"):
    """An upstream, and how it has fared since its server started."""

    name: str
    kind: str
    """`http` or `stdio`."""
    place: str
    era: str | None
    """The revision of MCP that it speaks, or spoke when it was last heard."""
    tools: int
    """How many of its tools are served."""
    withheld: dict[str, str]
    """Those that are not, by their ids or their own names, and why."""
    state: str
    since: float | None
    """When it came into this state, in seconds since 1970."""
    trouble: str
    calls: int
    errors: int
    p50_ms: float | None
    p99_ms: float | None


class UpstreamAnswer(Struct, frozen=True):
    """What came of asking an upstream for its list: the list, or what went wrong, in a sentence."""

    listing: dict[str, Any] | None = None
    trouble: str = ""


# -- the server's side -----------------------------------------------------------------------------


def encode_statuses(statuses: Sequence[UpstreamStatus]) -> Reply:
    return Reply(200, encode({"upstreams": statuses}), [JSON])


def encode_answer(answer: UpstreamAnswer) -> Reply:
    return Reply(200, encode(answer), [JSON])


# -- a client's side -------------------------------------------------------------------------------


def encode_list() -> Request:
    return Request("GET", PATH)


def decode_statuses(members: Mapping[str, Any]) -> list[UpstreamStatus]:
    """From the members of a reply."""
    return msgspec.convert(members["upstreams"], list[UpstreamStatus])


def encode_ask(name: str, address: str) -> Request:
    """Asks for the list of an upstream now. `address` is `Upstream.address`: one of the same name elsewhere is another,
    and not found."""
    return Request("GET", f"{PATH}/{name}/listing", query=query_of({"address": address}))


def decode_answer(members: Mapping[str, Any]) -> UpstreamAnswer:
    return msgspec.convert(members, UpstreamAnswer)
