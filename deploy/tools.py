"""What the examples in this folder serve. Put yours here."""

from toolyard import Toolkit

greetings = Toolkit("Greetings", version="1.0.0")


@greetings.tool
async def greet(name: str) -> str:
    """Greets somebody by name."""
    return f"Hello, {name}"
