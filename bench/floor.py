"""The floor: the least a validated tool call can cost on uvicorn.

A bare ASGI app that decodes with msgspec, validates with jsonschema-rs, awaits one function and encodes the
answer. It has no catalogue, authentication, limits, ledger or errors worth the name: what a real server takes
longer than this is what its features cost. `GET /tools` sends bytes that were encoded beforehand;
`--list-file` says which, so that the floor of the listing sends exactly what its rival sends. `--trimmed` also
leaves out what uvicorn does by default and need not: its date and server headers and its proxy middleware.

    python bench/floor.py --port 8000
"""

import argparse
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import uvicorn

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


class Call(msgspec.Struct):
    tool_id: str
    input: dict[str, Any]
    call_id: str = ""


class Outcome(msgspec.Struct):
    call_id: str
    duration: float
    success: bool
    value: float


async def add(a: float, b: float) -> float:
    return a + b


decode = msgspec.json.Decoder(Call).decode
encode = msgspec.json.Encoder().encode
is_valid = jsonschema_rs.validator_for(SCHEMA).is_valid
numbers = itertools.count()


def listing(count: int) -> bytes:
    """A stand-in for the list of so many tools, in the shape of OXP 1.0."""
    items = [
        {
            "id": f"Bench.Tool{number:04}@1.0.0",
            "name": f"Bench_Tool{number:04}",
            "description": "Adds two numbers.",
            "version": "1.0.0",
            "input_schema": SCHEMA,
            "output_schema": {"type": "number"},
        }
        for number in range(count)
    ]
    return msgspec.json.encode({"items": items})


async def read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


async def reply(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def call(receive: Receive, send: Send) -> None:
    request = decode(await read_body(receive))
    if not is_valid(request.input):
        await reply(send, 422, b'{"message":"Invalid input"}')
        return
    started = time.perf_counter()
    value = await add(**request.input)
    duration = (time.perf_counter() - started) * 1000
    call_id = request.call_id or f"call_{next(numbers):x}"
    await reply(send, 200, encode(Outcome(call_id, duration, True, value)))


def application(tools: bytes) -> App:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/tools/call":
            await call(receive, send)
        elif scope["path"] == "/tools":
            await reply(send, 200, tools)
        else:
            await reply(send, 404, b"{}")

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--list-file", type=Path)
    parser.add_argument("--trimmed", action="store_true")
    options = parser.parse_args()
    tools = options.list_file.read_bytes() if options.list_file else listing(1000)
    uvicorn.run(
        application(tools),
        port=options.port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=not options.trimmed,
        date_header=not options.trimmed,
        proxy_headers=not options.trimmed,
    )


if __name__ == "__main__":
    main()
