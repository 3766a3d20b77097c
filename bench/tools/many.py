"""One thousand tools, for the listing and for calls among many."""

from collections.abc import Awaitable, Callable

from toolyard import Toolkit

bench = Toolkit("Bench", version="1.0.0", description="A thousand tools that cost nothing.")


def make() -> Callable[[float, float], Awaitable[float]]:
    async def add(a: float, b: float) -> float:
        """Adds two numbers."""
        return a + b

    return add


for number in range(1000):
    bench.tool(name=f"Tool{number:04}")(make())
