"""Lines from a client over standard input."""

import os
from queue import SimpleQueue

from toolyard.server.mcp.transports.pipes import CHUNK, read_lines


def lines_of(data: bytes, most: int) -> list[bytes]:
    """As they are taken, while they are still written."""
    taken: SimpleQueue[bytes | None] = SimpleQueue()
    reading, writing = os.pipe()
    try:
        read_lines(reading, taken.put, most)
        with os.fdopen(writing, "wb") as file:
            file.write(data)
        return list(iter(taken.get, None))
    finally:
        os.close(reading)


def test_lines_are_taken_whole_wherever_they_are_cut() -> None:
    long = b"x" * (3 * CHUNK)
    assert lines_of(b"one\n" + long + b"\n\ntwo", len(long)) == [b"one", long, b"two"]


def test_lines_without_anything_in_them_are_not_taken() -> None:
    assert lines_of(b"\n" * (2 * CHUNK) + b" \t\r\none\n\r\n", 1000) == [b"one", b""]


def test_of_a_line_that_is_too_long_no_more_is_kept_than_shows_that() -> None:
    for end in (b"\nnext", b""):
        first, *rest = lines_of(b"x" * (10 * CHUNK) + end, 1000)
        assert first == b"x" * (1000 + CHUNK)
        assert rest == ([b"next"] if end else [])
