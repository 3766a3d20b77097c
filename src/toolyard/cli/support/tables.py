"""Tables that people read."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ...text.hidden import in_one_line

NOTHING = "-"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """With a line of names above it."""
    lines = [columns, *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def shown_time(seconds: float | None) -> str:
    return NOTHING if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
