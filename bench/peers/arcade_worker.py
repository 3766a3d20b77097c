"""Arcade's worker (arcade-serve) with one tool, authentication off. A second argument makes it that many."""

import sys
from collections.abc import Callable
from typing import Annotated

import uvicorn
from arcade_serve.fastapi import FastAPIWorker
from arcade_tdk import tool
from fastapi import FastAPI

app = FastAPI()
worker = FastAPIWorker(app, disable_auth=True)


def make(name: str) -> Callable[..., object]:
    @tool(name=name)
    async def add(
        a: Annotated[float, "The first number"], b: Annotated[float, "The second number"]
    ) -> Annotated[float, "The sum"]:
        """Adds two numbers."""
        return a + b

    return add


worker.register_tool(make("Add"), "Bench")
for number in range(int(sys.argv[2]) - 1 if len(sys.argv) > 2 else 0):
    worker.register_tool(make(f"Tool{number:04}"), "Bench")

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
