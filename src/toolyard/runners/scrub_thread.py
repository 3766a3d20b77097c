"""Scrubbing of what is large, and making it safe for models, happens beside the loop: a text of a few megabytes,
escaped or hidden all over, takes seconds."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ..model.errors import ToolError, scrub_error
from ..text.scrubber import Scrubber
from .schema_cost import measured

T = TypeVar("T")
LARGE = 8_000
"""Parts, and eight characters of text count as one: up to 64 KB, which take at most about 30 ms."""


async def beside_loop(work: Callable[[], T], size: int) -> T:
    """`work()`, in a thread where the text that it works on has so many bytes that it would hold others up."""
    return work() if size <= LARGE * 8 else await asyncio.to_thread(work)


async def scrubbed(scrub: Callable[[T], T], said: T, size: Any = None) -> T:
    """`scrub(said)`, in a thread where it is large. `size` is what to measure where that is not `said` itself."""
    if measured(said if size is None else size, LARGE)[0] <= LARGE:
        return scrub(said)
    return await asyncio.to_thread(scrub, said)


async def scrubbed_error(scrubber: Scrubber, error: ToolError) -> ToolError:
    """The same, of an error with what it says."""
    said = [value for value in vars(error).values() if isinstance(value, str)]
    return await scrubbed(partial(scrub_error, scrubber), error, said)
