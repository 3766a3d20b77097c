"""The clock."""

from datetime import UTC, datetime

from typing_extensions import TypedDict

from toolyard import Toolkit

system = Toolkit("System", version="1.0.0", description="Facts about the server.")


class Timestamp(TypedDict):
    timestamp: str


@system.tool(read_only=True)
async def get_timestamp() -> Timestamp:
    """Tells the current time, in UTC, to the microsecond."""
    return {"timestamp": datetime.now(UTC).isoformat(timespec="microseconds")}
