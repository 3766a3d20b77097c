"""The demo's output to the terminal."""

import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from ..text.hidden import in_one_line


class Screen:
    """Writes the demo's lines to the terminal, each at once: somebody may be waiting for a link."""

    def say(self, *lines: str) -> None:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()

    def step(self, number: int, title: str) -> None:
        self.say("", f"{number}. {title}")

    def tell(self, *sentences: str) -> None:
        """Says what happens, or what the person has to do."""
        self.say(*(f"   {sentence}" for sentence in sentences))

    def typed(self, command: str) -> None:
        """Shows the command that does the same."""
        self.say(f"   $ {command}")

    def printed(self, lines: Iterable[str]) -> None:
        """Shows a command's output. Control characters in it are spelled out, so that they do nothing here."""
        self.say(*("     " + in_one_line(line) for line in lines))

    def value(self, value: Any) -> None:
        self.printed([value if isinstance(value, str) else msgspec.json.encode(value).decode()])
