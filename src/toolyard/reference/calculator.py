"""Arithmetic."""

from toolyard import Toolkit

calculator = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")


@calculator.tool(read_only=True, runs="inline")
def add(a: float, b: float) -> float:
    """Adds two numbers together.

    Args:
        a: The first number to add.
        b: The second number to add.
    """
    return a + b
