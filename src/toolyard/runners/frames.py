"""What the server and a child process say to each other: length-prefixed MessagePack on a socket of their own,
so that a tool's `print` cannot disturb it."""

import asyncio
from collections.abc import Mapping
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

_LENGTH = 4


class Start(Struct, tag=True):
    """To the child: run this call."""

    reference: str
    call_id: str
    caller: tuple[str, str, str | None]
    input: bytes
    """As JSON."""
    trace_id: str | None
    user_info: Mapping[str, Any]
    secrets: Mapping[str, str]
    tokens: Mapping[str, str]


class ProgressFrame(Struct, tag=True):
    """From the child: how far the tool says that it is."""

    done: float
    total: float | None
    message: str | None


class Log(Struct, tag=True):
    """From the child: a line that the tool logs through its context."""

    level: str
    message: str
    fields: dict[str, Any]


class Returned(Struct, tag=True):
    """From the child: the tool's result, as plain JSON values."""

    value: Any


class FailedFrame(Struct, tag=True):
    """From the child: the tool failed on purpose, with this ToolError."""

    message: str
    developer_message: str | None
    can_retry: bool | None
    retry_after_ms: int | None
    additional_prompt_content: str | None


class Raised(Struct, tag=True):
    """From the child: anything else that the tool raised."""

    text: str
    traceback: str


Frame = Start | ProgressFrame | Log | Returned | FailedFrame | Raised
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def pack(frame: Frame) -> bytes:
    data = msgspec.msgpack.encode(frame)
    return len(data).to_bytes(_LENGTH, "big") + data


async def receive(reader: asyncio.StreamReader) -> Frame:
    """The next frame. Raises IncompleteReadError when the other side is gone."""
    length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
    return _decoder.decode(await reader.readexactly(length))


def read(file: BinaryIO) -> Frame | None:
    """The same, waiting in this thread. None when the other side is gone."""
    prefix = file.read(_LENGTH)
    return _decoder.decode(file.read(int.from_bytes(prefix, "big"))) if len(prefix) == _LENGTH else None
