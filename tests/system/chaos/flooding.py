"""Clients that want too much, in a process of their own: `tests.system.chaos.flooding ADDRESS KEY CONNECTIONS`.

Each connection sends its next call as soon as it has an answer to the last. What was answered is printed at the end,
which is when standard input closes.
"""

import asyncio
import json
import sys
from collections import Counter
from urllib.parse import urlsplit


def call(key: str, tool: str = "Kit.Echo", **input: object) -> bytes:
    body = json.dumps({"tool_id": tool, "input": input or {"value": "x"}}).encode()
    head = f"POST /tools/call HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Caller:
    """One connection, which calls and waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def at(cls, address: str) -> "Caller":
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def status(self, request: bytes) -> int:
        """Of the answer, once all of it is there."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await self._reader.readexactly(size)
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        self._writer.close()


async def flood(address: str, key: str, connections: int, answered: Counter[int]) -> None:
    request = call(key)

    async def one() -> None:
        caller = await Caller.at(address)
        while True:
            answered[await caller.status(request)] += 1

    await asyncio.gather(*(one() for _ in range(connections)))


async def main(address: str, key: str, connections: str) -> None:
    answered: Counter[int] = Counter()
    flooding = asyncio.create_task(flood(address, key, int(connections), answered))
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.wait([flooding, over], return_when=asyncio.FIRST_COMPLETED)
    if flooding.done():
        flooding.result()
    sys.stdout.write(json.dumps({str(status): count for status, count in answered.items()}))
    sys.stdout.flush()
    flooding.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
