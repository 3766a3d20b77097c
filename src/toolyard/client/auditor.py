"""The client of whoever reads the audit log, or checks it."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from ..wires import audit as wire
from ..wires.contract import Request
from ..wires.lifecycle import LIFECYCLE
from .client import Sending

Row = dict[str, Any]
Head = wire.HeadText


def heads_in(lines: bytes) -> list[Head]:
    """Heads that were exported, a line each. Raises ValueError."""
    try:
        heads = [msgspec.json.decode(line, type=Head) for line in lines.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    for head in heads:
        wire.mark_of(head)
    return heads


class Auditor:
    """Asks for one part of the log after another."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sending.close()

    def chains(self) -> list[Row]:
        """Each with its name, head and anchor."""
        chains: list[Row] = self._ask(wire.encode_list())["chains"]
        return chains

    def heads(self) -> list[Row]:
        return [chain["head"] for chain in self.chains() if chain["head"] is not None]

    def entries(self, chain: str, after: int = 0, since: float | None = None) -> Iterator[Row]:
        """Those of the blocks after that number, the oldest first, each with its chain and block."""
        while blocks := self._ask(wire.encode_read(chain, after, since))["blocks"]:
            for block in blocks:
                yield from ({"chain": chain, "block": block["number"], **entry} for entry in block["entries"])
            after = blocks[-1]["number"]

    def newest(self, count: int) -> list[Row]:
        """Of all chains, the oldest of them first. A block has an entry at least, so not many blocks are read."""
        found: list[Row] = []
        for head in sorted(self.heads(), key=lambda head: head["at"], reverse=True):
            if len(found) == count and head["at"] < found[0].get("at", 0.0):
                break
            found += self.entries(head["chain"], max(head["number"] - count, 0))
            found = sorted(found, key=lambda entry: entry.get("at", 0.0))[-count:]
        return found

    def verify(self, chain: str, heads: Sequence[Head]) -> wire.Checked:
        """All of a chain, as far as it is whole, against heads of it that were exported."""
        place = wire.PlaceText()
        while True:
            asked = wire.encode_check(wire.Check(chain, place, tuple(heads)))
            checked = msgspec.convert(self._ask(asked), wire.Checked)
            if checked.done or checked.wrong is not None:
                return checked
            place = checked.place

    def _ask(self, request: Request) -> Row:
        return LIFECYCLE.decode(self._sending.send(request))
