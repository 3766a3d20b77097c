"""The cheapest HTTP server there can be: one canned answer to whatever arrives.

It does no work, so the rate it is asked at is the load generator's own ceiling. Figures near that ceiling
say nothing about a server.

    python bench/bare.py --port 8000
"""

import argparse
import asyncio
from typing import cast

import uvloop

BODY = b'{"call_id":"0","duration":0.0,"success":true,"value":15.0}'
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)


class Canned(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self.transport.write(REPLY)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))
