"""A thousand clients that all call their request 0."""

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from .schemas import MODERN
from .serving import Server
from .talking import Newer, Older

CLIENTS = 1000


async def exchange(host: str, port: int, headers: dict[str, str], sent: Any) -> Any:
    body = json.dumps(sent).encode()
    lines = [f"{name}: {value}" for name, value in {"host": f"{host}:{port}", **headers}.items()]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"content-length: {len(body)}", "connection: close", "", ""])
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(head.encode() + body)
    reply = await reader.read()
    writer.close()
    return json.loads(reply.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_nobody_ever_sees_the_answer_to_another(server: Server, revision: str) -> None:
    """Those of the older era share one session, too, every other time."""
    parts = urlsplit(server.url)
    clients = [Newer(server.url) if revision == MODERN else Older(server.url, revision).initialize() for _ in range(2)]

    async def one(number: int) -> None:
        client = clients[number % 2]
        if isinstance(client, Older) and number % 4 > 1:
            client = Older(server.url, revision)
        sent = client.made("tools/call", {"name": "Kit_Add", "arguments": {"a": number, "b": 0}}, 0)
        headers = {**client.wire.headers, **client.own_headers(sent)}
        found = await exchange(parts.hostname or "", parts.port or 0, headers, sent)
        assert found["id"] == 0
        assert found["result"]["content"][0]["text"] == str(number)

    async def all_at_once() -> None:
        await asyncio.gather(*map(one, range(CLIENTS)))

    asyncio.run(all_at_once())
