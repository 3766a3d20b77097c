"""A tool that returns a picture."""

import base64
import struct
import zlib
from typing import Literal

from pydantic import BaseModel

from toolyard import Toolkit

files = Toolkit("Files", version="1.0.0", description="Makes files.")


class Image(BaseModel):
    """A picture, in the form that agents pass around."""

    type: Literal["image"] = "image"
    data: str
    mimeType: str


@files.tool(read_only=True)
def chart(values: list[float] | None = None) -> Image:
    """Draws a bar chart as a PNG image.

    Args:
        values: How high each bar is; a few made up ones if there are none.
    """
    pixels = _bars(values or [3, 1, 4, 1, 5, 9, 2, 6])
    return Image(data=base64.b64encode(_png(pixels)).decode(), mimeType="image/png")


def _bars(values: list[float], height: int = 64, width: int = 12) -> list[bytes]:
    """Rows of grey pixels: black bars on white, as high as their share of the highest."""
    values = values[:64]
    top = max(*values, 0) or 1
    heights = [round(max(value, 0) / top * height) for value in values]
    return [
        b"".join((b"\x00" if tall > height - 1 - row else b"\xff") * (width - 2) + b"\xff\xff" for tall in heights)
        for row in range(height)
    ]


def _png(rows: list[bytes]) -> bytes:
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\x00" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
