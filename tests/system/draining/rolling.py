"""Two nodes on one ledger behind a plain proxy are replaced one after the other, while clients that retry nothing call
over every wire: none of their calls may be lost."""

import asyncio
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...promises import wires
from .proxy import Proxy, message, proxying
from .serving import Node

CLIENTS = 12
WIRES = ("oxp", "otc", "draft", "mcp-new", "mcp-old")
DRAIN_S = "1.5"
"""Many times as long as the proxy needs to notice, also on a busy machine."""


@dataclass
class Report:
    """What became of all calls."""

    calls: int = 0
    by_wire: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    replaced: int = 0

    def __str__(self) -> str:
        lost = f"{len(self.lost)} lost" + "".join(f"\n  {each}" for each in self.lost[:20])
        return f"{self.calls} calls ({dict(self.by_wire)}), {self.replaced} nodes replaced: {lost}"


async def roll(folder: Path, store: str, *, least: int) -> Report:
    """Replaces each node in turn, at least once each and until so many calls were made."""
    nodes = [Node(folder, store=store, drain_s=DRAIN_S, secret_key="7" * 64) for _ in range(2)]
    report = Report()
    try:
        for node in nodes:
            await asyncio.to_thread(node.start)
        async with proxying([node.port for node in nodes]) as (proxy, port):
            stop = asyncio.Event()
            clients = [asyncio.create_task(_client(number, port, stop, report)) for number in range(CLIENTS)]
            while report.calls < least or report.replaced < len(nodes):
                await _replace(nodes[report.replaced % len(nodes)], proxy)
                report.replaced += 1
            stop.set()
            await asyncio.gather(*clients)
            report.lost += proxy.why
            assert proxy.reused > report.calls / 2, "connections were not kept, so nothing was shown of them"
            assert min(proxy.served.values()) > 0
    finally:
        for node in nodes:
            node.end()
    return report


async def _replace(node: Node, proxy: Proxy) -> None:
    """As whoever deploys does: one node after the other, and not before the last one is back."""
    node.tell()
    assert await asyncio.to_thread(node.wait) == 0
    await asyncio.to_thread(node.start)
    async with asyncio.timeout(30):
        while node.port not in proxy.ready:
            await asyncio.sleep(0.02)


async def _client(number: int, port: int, stop: asyncio.Event, report: Report) -> None:
    """Calls one after the other by one connection, each over the next wire; every other call has a key."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def said(request: wires.Request) -> str:
        writer.write(_encoded(request))
        return (await message(reader)).decode()

    found = re.search(r"mcp-session-id: *(\S+)", await said(wires.hello()))
    assert found is not None
    turn = 0
    while not stop.is_set():
        turn += 1
        wire, text = WIRES[turn % len(WIRES)], f"{number}-{turn}"
        tool = "Held.Pause" if turn % 3 == 0 else "Held.Quick"
        reply = await said(wires.call(wire, tool, {"text": text}, text if turn % 2 else None, None, found[1]))
        report.calls += 1
        report.by_wire[wire] += 1
        if not reply.startswith("HTTP/1.1 200 ") or f'"{text}"' not in reply or '"isError":true' in reply:
            report.lost.append(f"{wire} {text}: {reply}")
    writer.close()


def _encoded(request: wires.Request) -> bytes:
    body = json.dumps(request.body).encode()
    headers: dict[str, Any] = {"content-type": "application/json", **request.headers, "content-length": len(body)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{request.method} {request.path} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode() + body
