"""Calls through a gateway: what it adds to the upstream called directly, alone and beside other gateways.

The upstream is a toolyard, so that it is not the limit; it shares the load generator's core, and the gateway has the
other one to itself. Ledger and audit are on in the gateway, as they are by default.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench import contenders
from bench.contenders import HERE, MANY, SERVER, Installed, flat
from bench.contest import Loaded, contest, invited
from bench.mcp import call, listing, newer, older
from bench.measure import LOAD_CORE, SERVER_CORE, Effort, Entrant, interleave
from bench.report import Bar, Goal, Of, Row, bar, figure_row
from bench.servers import Contender, Exchange, Server, serving

MANY_UPSTREAMS = 50
AT_ONCE = 16
FASTMCP_PROXY = Installed("fastmcp", "fastmcp_proxy.py", ("fastmcp>=4,<5", *SERVER))
MCP_PROXY = Installed("mcp-proxy", "mcp_sdk_stdio.py", ("mcp-proxy>=0.13,<0.14", *SERVER))


@contextmanager
def gateway(name: str, upstreams: list[str], what: Exchange) -> Iterator[Contender]:
    """A toolyard that has these upstreams and nothing else: tables of the settings."""
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder:
        settings = Path(folder) / "toolyard.toml"
        settings.write_text("".join(f"[[upstreams]]\n{each}\n" for each in upstreams))
        yield replace(contenders.toolyard("add.py", name=name, settings=str(settings)), call=what)


def at(server: Server, name: str = "Up") -> str:
    return f'name = "{name}"\nmcp = "http://127.0.0.1:{server.port}/mcp"'


def added(effort: Effort) -> list[Row]:
    """One call at a time: how much later the answer comes than from the upstream itself."""
    effort = replace(effort.for_loose_bars(), connections=1)
    direct, through = flat("Bench.Add"), flat("Up.Bench_Add")
    with serving(contenders.toolyard(settings=None), LOAD_CORE) as upstream:
        with gateway("toolyard", [at(upstream)], through) as ours, serving(ours, SERVER_CORE) as server:
            entrants = [Entrant(upstream, direct), Entrant(server, through)]
            plain, ways = interleave(entrants, effort)
    p50 = [way.p50_ms - one.p50_ms for way, one in zip(ways, plain, strict=True)]
    p99 = [way.p99_ms - one.p99_ms for way, one in zip(ways, plain, strict=True)]
    work = "added by the gateway, one call at a time"
    return [
        figure_row(work, "toolyard, p50", p50, "{:.2f} ms", Bar((Goal(Of.FIGURE, "<=", 1.0, " ms"),))),
        figure_row(work, "toolyard, p99", p99, "{:.2f} ms", Bar((Goal(Of.FIGURE, "<=", 5.0, " ms"),))),
    ]


def crowd(effort: Effort) -> list[Row]:
    """A call among fifty upstreams against one among one; and how many there are a second."""
    effort = replace(effort.for_loose_bars(), connections=AT_ONCE)
    what = flat("Up.Bench_Add")
    with serving(contenders.toolyard(settings=None), LOAD_CORE) as upstream:
        others = [at(upstream, f"Other{number}") for number in range(MANY_UPSTREAMS - 1)]
        with (
            gateway("toolyard, 1 upstream", [at(upstream)], what) as one,
            gateway(f"toolyard, {MANY_UPSTREAMS} upstreams", [at(upstream), *others], what) as many,
        ):
            enough = Bar((Goal(Of.FIGURE, ">=", 1500, "/s"),))
            loaded = [Loaded(one, what, enough), Loaded(many, what, bar(Of.CPU, "<=", 1.1))]
            return contest("call through a gateway", loaded, effort)


def beside_fastmcp(effort: Effort) -> list[Row]:
    """FastMCP's `create_proxy`, which is made for each of its calls anew, before the same upstream."""
    work, effort = "MCP call through a gateway, HTTP", replace(effort.for_peers(), connections=AT_ONCE)
    able, without = invited(work, [FASTMCP_PROXY])
    theirs, mine = call(newer, "Bench_Add"), call(newer, "Up_Bench_Add")
    with serving(contenders.toolyard(settings=None), LOAD_CORE) as upstream:
        command = [str(FASTMCP_PROXY.python), str(HERE / "peers" / FASTMCP_PROXY.script)]
        proxy = Contender(
            "fastmcp create_proxy",
            lambda port: [*command, str(port), f"http://127.0.0.1:{upstream.port}/mcp"],
            theirs,
        )
        with gateway("toolyard", [at(upstream)], mine) as ours:
            loaded = [Loaded(proxy, theirs)] if able else []
            loaded.append(Loaded(ours, mine, bar(Of.RATIO, ">=", 50.0) if able else None))
            return contest(work, loaded, effort) + without


def beside_mcp_proxy(effort: Effort) -> list[Row]:
    """mcp-proxy and the same program over pipes: a server of the official SDK."""
    work, effort = "MCP call through a gateway, pipes", replace(effort.for_peers(), connections=AT_ONCE)
    able, without = invited(work, [MCP_PROXY])
    if not able:
        return without
    python, script = str(MCP_PROXY.python), str(HERE / "peers" / MCP_PROXY.script)
    theirs, mine = call(older, "add"), call(older, "Up_add")
    command = [str(Path(python).with_name("mcp-proxy")), "--host", "127.0.0.1"]
    proxy = Contender("mcp-proxy", lambda port: [*command, "--port", str(port), "--", python, script], theirs)
    with gateway("toolyard", [f'name = "Up"\ncommand = ["{python}", "{script}"]'], mine) as ours:
        return contest(work, [Loaded(proxy, theirs), Loaded(ours, mine, bar(Of.RATIO, ">=", 4.0))], effort)


def upstream_list(effort: Effort) -> list[Row]:
    """The list of a thousand tools of an upstream, against one of our own."""
    effort, what = effort.for_loose_bars(), listing(newer)
    own = replace(contenders.toolyard_of_many("toolyard, its own"), call=what)
    with serving(own, LOAD_CORE) as upstream, tempfile.TemporaryDirectory(prefix="bench-empty-") as folder:
        empty = Path(folder) / "empty.py"
        empty.write_text("from toolyard import App\n\napp = App()\n")
        with gateway("toolyard, an upstream's", [at(upstream)], what) as ours:
            command = ours.command
            alone = replace(ours, command=lambda port: [each.replace(ADD, str(empty)) for each in command(port)])
            return contest(
                f"list of {MANY:,} tools", [Loaded(own, what), Loaded(alone, what, bar(Of.RATIO, ">=", 0.9))], effort
            )


ADD = str(HERE / "tools" / "add.py")


def through_gateways(effort: Effort) -> list[Row]:
    return [*added(effort), *crowd(effort), *beside_fastmcp(effort), *beside_mcp_proxy(effort), *upstream_list(effort)]
