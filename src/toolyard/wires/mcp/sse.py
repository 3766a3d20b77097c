"""Server-sent events, read as they come: bytes in, events out, as the HTML standard has it.

A stream may be cut anywhere, also inside a character, a line end or the mark at its beginning, and gives the same
events. It may be without end, so what is kept of it, one event at most, is bounded.
"""

import re

from msgspec import Struct

from ...model.errors import ServerError

MOST_EVENT = 128 * 2**20
"""Bytes of an event, unless a reader says otherwise: as many as a client takes of a reply that is no stream."""
_LINE = 8
"""Bytes of memory that a line of an event takes beside its own."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_line_end = re.compile(rb"\r\n|\n|\r")


class EventTooLarge(ServerError):
    """An event of a stream has more bytes than its reader takes."""


class ServerSentEvent(Struct, frozen=True):
    """An event. `id` is the last one that the stream has said: where to go on, should it break off now."""

    data: str
    name: str
    id: str


class EventReader:
    """Reads one stream. `last_id` and `retry_ms` are what it has said so far: also an event without data, which is
    none, has an id that counts."""

    def __init__(self, most: int = MOST_EVENT) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self._most = most
        self._line = bytearray()
        """What has come of a line whose end has not."""
        self._is_first_line, self._ended_with_cr = True, False
        self._data, self._size, self._name, self._id = list[str](), 0, "", ""

    def feed(self, stream: bytes) -> list[ServerSentEvent]:
        """The events that are complete with this piece of the stream. Raises EventTooLarge, and is of no use then."""
        if not stream:
            return []
        if self._ended_with_cr and stream.startswith(b"\n"):
            stream = stream[1:]  # the rest of a line end whose beginning was one already
        *ended, begun = _line_end.split(stream)
        self._ended_with_cr = stream.endswith(b"\r")
        events = []
        for piece in ended:
            event = self._take_line(bytes(self._line) + piece if self._line else piece)
            self._line.clear()
            if event is not None:
                events.append(event)
        self._line += begun
        self._refuse_large(len(self._line))
        return events

    def finish(self) -> list[ServerSentEvent]:
        """The event that was under way when the stream ended, as if it were complete. The standard drops it; some
        servers leave out the last line end. An id that may be cut off is no place to go on from, and does not count."""
        line = bytes(self._line)
        self._line.clear()
        if line.startswith(b"data"):
            self._take_line(line)
        self._id = self.last_id
        event = self._dispatch()
        return [] if event is None else [event]

    def _take_line(self, line: bytes) -> ServerSentEvent | None:
        """The event that ends with this line."""
        self._refuse_large(len(line))
        if self._is_first_line:
            self._is_first_line, line = False, line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, text = line.partition(b":")
        value = text.removeprefix(b" ")
        if name == b"data":
            self._refuse_large(len(value) + _LINE)
            self._size += len(value) + _LINE
            self._data.append(value.decode("utf-8", "replace"))
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_ms = int(value[:9])
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        self.last_id = self._id
        data, name = self._data, self._name or "message"
        self._data, self._size, self._name = [], 0, ""
        return ServerSentEvent("\n".join(data), name, self.last_id) if data else None

    def _refuse_large(self, more: int) -> None:
        if self._size + more > self._most:
            raise EventTooLarge(f"An event of the stream has more than {self._most} bytes")
