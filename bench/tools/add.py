"""The tools that are called: as little as a tool can do, once awaited and once in a thread."""

from toolyard import Toolkit

bench = Toolkit("Bench", version="1.0.0", description="Tools that cost nothing.")


@bench.tool
async def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@bench.tool
def add_sync(a: float, b: float) -> float:
    """Adds two numbers in a thread."""
    return a + b


@bench.tool
async def total(a: float, b: float) -> dict[str, float]:
    """Adds two numbers, and says so in an object: some gateways pass on no other results."""
    return {"total": a + b}
