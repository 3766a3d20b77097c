"""How many connections each process of a group has accepted, in a page of memory that all of them see.

Each process writes its own number and reads the others'; the parent marks those that are not there. A number may be old
by the moment that its process takes to look: it decides who accepts the next connection, and nothing else.
"""

import mmap
from pathlib import Path

ABSENT = 2**62
"""The number of a process that is not there: more than any has, so that nobody waits for it."""
_BYTES = 8


class Shares:
    """The page. `count` is how many processes there are."""

    def __init__(self, path: Path | None, count: int) -> None:
        """Opens the page, or makes it, with nobody there yet. Without a path nobody else sees it."""
        nobody = ABSENT.to_bytes(_BYTES, "little") * count
        if path is None:
            self._page = mmap.mmap(-1, len(nobody))
            self._page.write(nobody)
        else:
            if not path.exists():
                path.write_bytes(nobody)
            with path.open("r+b") as file:
                self._page = mmap.mmap(file.fileno(), len(nobody))
        self._numbers = memoryview(self._page).cast("q")

    @property
    def is_shared(self) -> bool:
        """Whether there are others."""
        return len(self._numbers) > 1

    def put(self, number: int, accepted: int) -> None:
        """By the process of that number, from 1, or by the parent for one that is gone."""
        self._numbers[number - 1] = accepted

    def others(self, number: int) -> list[int]:
        """What the other processes have accepted: of those that are there."""
        return [each for at, each in enumerate(self._numbers, 1) if at != number and each != ABSENT]
