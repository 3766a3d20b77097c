"""The same work over HTTP: `python over_http.py postgresql://… http://127.0.0.1:PORT`.

Jobs are put into the ledger beside the server; they are claimed, renewed and answered through it. Each worker has
connections of its own, one request in flight on each.
"""

import asyncio
import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from bench.queues.jobs import REFERENCE, enqueue, opened
from bench.queues.line import follow

CONNECTIONS = 50
RESULT = b'{"response":{"state":"COMPLETE","sum":15}}'
DEFINITION = {"id": REFERENCE, "input_schema": {"type": "object"}, "on_lost": "rerun"}


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, method: str, path: str, body: bytes, headers: str = "") -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = answered.partition(b"content-length:")[2].partition(b"\r")[0]
        reply = await self._reader.readexactly(int(length or b"0"))
        if not answered.startswith(b"http/1.1 200"):
            raise RuntimeError(f"{path}: {answered[:60]!r} {reply[:200]!r}")
        return reply


class Worker:
    def __init__(self, name: str, connections: list[Connection]) -> None:
        self._name, self._connections = f"Toolyard-Worker: {name}\r\n", connections
        self._path = f"/v1/workers/{name}"

    async def work(self, batch: int) -> int:
        """Until nothing is left. How many it did."""
        first, done = self._connections[0], 0
        await first.ask("PUT", self._path, json.dumps({"tools": [DEFINITION]}).encode())
        while claims := await self._claim(first, batch):
            beats = [{name: each[name] for name in ("sessionId", "requestId", "attempt")} for each in claims]
            body = json.dumps({"heartbeats": beats}).encode()
            verdicts = json.loads(await first.ask("POST", "/v1/tools/heartbeats", body, self._name))["results"]
            if any(each["status"] != 200 for each in verdicts):
                raise RuntimeError("a heartbeat was refused")
            left = iter(claims)
            await asyncio.gather(*(self._answer(connection, left) for connection in self._connections))
            done += len(claims)
        return done

    async def _claim(self, connection: Connection, batch: int) -> list[Any]:
        body = json.dumps({"limit": batch}).encode()
        claims: list[Any] = json.loads(await connection.ask("POST", "/v1/tools/claim", body, self._name))["claims"]
        return claims

    async def _answer(self, connection: Connection, left: Any) -> None:
        for each in left:
            path = f"/v1/tools/response/{each['sessionId']}/{each['requestId']}"
            await connection.ask("POST", path, RESULT, f"{self._name}Toolyard-Attempt: {each['attempt']}\r\n")


async def main(address: str, url: str) -> None:
    store, numbers = await opened(address), count(time.time_ns())
    parts = urlsplit(url)

    async def hired(name: str) -> Worker:
        links = [await asyncio.open_connection(parts.hostname, parts.port) for _ in range(CONNECTIONS)]
        return Worker(name, [Connection(*link) for link in links])

    async def fill(told: dict[str, int]) -> int:
        return await enqueue(store, numbers, told["jobs"])

    async def empty(told: dict[str, int]) -> int:
        workers = [await hired(f"w{number}") for number in range(told["workers"])]
        return sum(await asyncio.gather(*(worker.work(told["batch"]) for worker in workers)))

    try:
        await follow(fill, empty)
    finally:
        await store.close()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
