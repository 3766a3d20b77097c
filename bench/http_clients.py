"""What a request costs the client that sends it: ours for upstream servers beside general ones.

    python bench/http_clients.py          # half a minute; aiohttp takes part where it is installed

Each client is a process of its own that posts 300 bytes of JSON to a bare uvicorn app, over 16 connections, and reads
300 bytes. All take turns, round by round; the figure is the CPU time of the client's process, all its threads, for a
request: the median of the rounds.
"""

import asyncio
import importlib
import importlib.util
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

CONNECTIONS, REQUESTS, ROUNDS = 16, 1600, 11
BODY = b'{"text": "' + b"x" * 288 + b'"}'
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
Post = Callable[[], Awaitable[bytes]]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def of_toolyard(url: str) -> Post:
    from toolyard.upstream.http_client import HttpClient

    client = HttpClient(url, most_connections=CONNECTIONS)
    headers = {name.encode(): value.encode() for name, value in HEADERS.items()}

    async def post() -> bytes:
        with await client.send("POST", client.path, headers, BODY, head_s=30) as reply:
            return await reply.read(2**20)

    return post


async def of_aiohttp(url: str) -> Post:
    aiohttp = importlib.import_module("aiohttp")
    client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS))

    async def post() -> bytes:
        async with client.post(url, data=BODY, headers=HEADERS) as reply:
            body: bytes = await reply.read()
            return body

    return post


async def of_httpx2(url: str) -> Post:
    httpx2 = importlib.import_module("httpx2")
    client = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=CONNECTIONS), trust_env=False)

    async def post() -> bytes:
        body: bytes = (await client.post(url, content=BODY, headers=HEADERS)).content
        return body

    return post


CLIENTS = {"toolyard": of_toolyard, "aiohttp": of_aiohttp, "httpx2": of_httpx2}


async def take_turns(name: str, url: str) -> None:
    """Sends a round of requests for each line that comes in, and says when it is done."""
    post = await CLIENTS[name](url)

    async def one_connection() -> None:
        for _ in range(REQUESTS // CONNECTIONS):
            assert await post() == BODY

    while await asyncio.to_thread(sys.stdin.readline):
        await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
        print("done", flush=True)
    os._exit(0)


def cpu_ns(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def turn(client: "subprocess.Popen[str]") -> float:
    """CPU time a request, in microseconds."""
    assert client.stdin is not None
    assert client.stdout is not None
    before = cpu_ns(client.pid)
    client.stdin.write("go\n")
    client.stdin.flush()
    assert client.stdout.readline() == "done\n"
    return (cpu_ns(client.pid) - before) / REQUESTS / 1000


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def measure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = started("server", port)
    while True:
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", int(port))) == 0:
                break
        time.sleep(0.05)
    names = [name for name in CLIENTS if name == "toolyard" or importlib.util.find_spec(name)]
    clients = {name: started(name, f"http://127.0.0.1:{port}/") for name in names}
    figures: dict[str, list[float]] = {name: [] for name in names}
    try:
        for client in clients.values():
            turn(client)  # to warm up
        for _ in range(ROUNDS):
            for name, client in clients.items():
                figures[name].append(turn(client))
    finally:
        for process in (server, *clients.values()):
            process.kill()
            process.wait()
    for name, each in figures.items():
        print(f"{name:10} {statistics.median(each):7.1f} us, best {min(each):.1f}, worst {max(each):.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["server"]:
        uvicorn.run(answer, port=int(sys.argv[2]), log_level="warning", access_log=False, loop="uvloop")
    elif sys.argv[1:]:
        uvloop.run(take_turns(*sys.argv[1:3]))
    else:
        measure()
