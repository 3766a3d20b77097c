"""One tool in four versions."""

from collections.abc import Awaitable, Callable

from typing_extensions import TypedDict

from toolyard import Toolkit

echo = Toolkit("Echo", version="10.0.0", description="Says what it is told, and which version said it.")


class Said(TypedDict):
    text: str
    version: str


def _version(version: str) -> Callable[[str], Awaitable[Said]]:
    async def say(text: str) -> Said:
        """Says the text again.

        Args:
            text: What to say.
        """
        return {"text": text, "version": version}

    return echo.tool(version=version, read_only=True)(say)


for _each in ("1.0.0", "1.2.0", "2.0.0", "10.0.0"):
    _version(_each)
