"""Modules of a test's own folder, imported by it and forgotten after it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def forgetting(folder: Path) -> Iterator[None]:
    """What is imported from a folder, and the ways to it, are gone when the block ends."""
    ways = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = ways
        for name in [name for name, module in list(sys.modules.items()) if _is_from(module, folder)]:
            del sys.modules[name]


def _is_from(module: ModuleType, folder: Path) -> bool:
    """Folders that are packages without a file included."""
    places = [vars(module).get("__file__"), *vars(module).get("__path__", ())]
    return any(Path(place).is_relative_to(folder) for place in places if isinstance(place, str))
