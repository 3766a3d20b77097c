"""What the demo writes to the terminal."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from ..text.hidden import in_one_line


class Screen:
    """Each line is there at once: somebody may be waiting for it."""

    def say(self, *lines: str) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def step(self, number: int, title: str) -> None:
        self.say("", f"{number}. {title}")

    def tell(self, *sentences: str) -> None:
        """What happens, or what to do."""
        self.say(*(f"   {sentence}" for sentence in sentences))

    def typed(self, command: str) -> None:
        """What to type to have the same."""
        self.say(f"   $ {command}")

    def printed(self, lines: Iterable[str]) -> None:
        """What comes of it. Nothing in it gives the terminal orders."""
        self.say(*("     " + in_one_line(line) for line in lines))

    def value(self, value: Any) -> None:
        self.printed([value if isinstance(value, str) else msgspec.json.encode(value).decode()])
