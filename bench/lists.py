"""Lists of a thousand tools: on every wire against the same bytes sent ready-made, and among peers."""

import tempfile
from dataclasses import replace

from bench import contenders
from bench.contenders import LIST, MANY, PEERS
from bench.contest import Loaded, contest, invited
from bench.mcp import ERAS
from bench.mcp import listing as mcp_listing
from bench.measure import Effort
from bench.report import Of, Row, bar
from bench.servers import Exchange, serving

BYTES = Exchange("GET", "/tools", b"", bool)
WIRES = {
    "OXP": LIST,
    "OTC 1.0": Exchange("GET", "/otc/tools", b"", lambda reply: len(reply["tools"]) == MANY),
    "OTC draft": Exchange("GET", "/otc/draft/tools", b"", lambda reply: len(reply["tools"]) == MANY),
    **{f"MCP {revision}": mcp_listing(era) for revision, era in ERAS.items()},
}


def lists(effort: Effort) -> list[Row]:
    return [row for wire, what in WIRES.items() for row in against_bytes(f"list 1,000 tools, {wire}", what, effort)]


def against_bytes(work: str, what: Exchange, effort: Effort) -> list[Row]:
    """The floor sends the very bytes that toolyard sends."""
    ours = contenders.toolyard_of_many()
    with tempfile.NamedTemporaryFile(prefix="bench-list-") as file:
        with serving(ours) as server:
            file.write(server.ask(what))
            file.flush()
        floor = contenders.floor("--list-file", file.name, name="floor, the same bytes")
        ours = replace(ours, call=what)
        loaded = [Loaded(floor, BYTES), Loaded(ours, what, bar(Of.RATIO, ">=", 0.5))]
        return contest(work, loaded, effort.for_loose_bars())


def peers_list(effort: Effort) -> list[Row]:
    work, ours = "list 1,000 tools, among peers", contenders.toolyard_of_many()
    able, rows_without = invited(work, [peer for peer in PEERS if peer.list_path])
    theirs = [Loaded(peer.contender(MANY), peer.listing) for peer in able]
    return (
        contest(work, [Loaded(contenders.floor(), LIST), Loaded(ours, LIST), *theirs], effort.for_peers())
        + rows_without
    )
