"""Upstreams, for operators: how each fares, and what it lists now.

A running server answers from the connections that it has. Where none runs, the settings say which upstreams there are,
the ledger what they listed last, and an upstream is connected to for as long as the answer takes.
"""

from collections.abc import Mapping

import msgspec

from ...model.errors import PathNotFound
from ...upstream.faults import UpstreamFault, UpstreamRefusal, advice
from ...upstream.upstreams import FollowedUpstream, UpstreamReport
from ...wires.admin import upstreams as wire
from ...wires.contract import Reply
from ..http import query
from ..http.exchange import Exchange
from .operation import Operation, OperatorParts


async def list_upstreams(parts: OperatorParts, exchange: Exchange) -> Reply:
    followed = await _followed(parts)
    return wire.encode_statuses([_status(each.report(), is_idle=parts.server is None) for each in followed.values()])


async def list_tools(parts: OperatorParts, exchange: Exchange) -> Reply:
    """What one lists now. Raises PathNotFound for one that is not there, or is elsewhere than the operator thinks."""
    name = exchange.parameters["name"]
    found = (await _followed(parts)).get(name)
    if found is None or query.text(exchange, "address") not in (None, found.upstream.address):
        raise PathNotFound(f"There is no upstream {name} here, or it is another one")
    try:
        return wire.encode_answer(await _asked(found))
    finally:
        if parts.server is None:
            await found.link.close()


async def _asked(followed: FollowedUpstream) -> wire.UpstreamAnswer:
    """What an upstream lists now, or why it does not."""
    try:
        return wire.UpstreamAnswer(msgspec.to_builtins(await followed.link.listing()))
    except (UpstreamFault, TimeoutError) as fault:
        sentence = followed.link.said(fault) or "did not list its tools in time"
        if isinstance(fault, UpstreamRefusal) and fault.code is not None:  # these words are the upstream's own
            sentence = f"refuses: {sentence}"
        return wire.UpstreamAnswer(trouble=sentence + advice(followed.upstream, fault))


async def _followed(parts: OperatorParts) -> Mapping[str, FollowedUpstream]:
    """By their names. A running server has them; otherwise they are made for this answer."""
    if parts.server is not None:
        return {} if parts.server.upstreams is None else parts.server.upstreams.followed
    return await parts.idle_upstreams()


def _status(report: UpstreamReport, *, is_idle: bool) -> wire.UpstreamStatus:
    figures = report.figures
    return wire.UpstreamStatus(
        report.name,
        report.kind,
        report.place,
        report.era,
        report.tools,
        dict(report.withheld),
        wire.IDLE if is_idle else figures.state,
        None if is_idle else figures.since,
        figures.trouble,
        figures.calls,
        figures.errors,
        figures.p50_ms,
        figures.p99_ms,
    )


OPERATIONS = (
    Operation("GET", wire.PATH, list_upstreams),
    Operation("GET", wire.PATH + "/{name}/listing", list_tools),
)
