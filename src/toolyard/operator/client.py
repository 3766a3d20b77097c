"""The clients of operators, who are whoever runs a server: one for all of `/v1/admin`, and one for the audit log.

Both send the requests that `wires/admin` encodes, over any `Transport`: to a server, or to a ledger that is opened here
(`reach.py`). A verb asks with the request of its subject, so a new operation needs nothing here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from ..client.client import Rows, Transport, drive
from ..client.flows import shown
from ..model.json_value import decode_as
from ..wires.admin import audit, calls
from ..wires.contract import Request
from ..wires.lifecycle.calls import LIFECYCLE

Row = dict[str, Any]
Head = audit.HeadText


class OperatorClient:
    """Asks as an operator. It lists, shows and cancels calls by the methods of a `Client`, so that a verb can be given
    either; but those of all callers. `caller` says whose call is meant where several callers have used its id."""

    def __init__(self, transport: Transport, caller: str | None = None) -> None:
        self._transport, self._caller = transport, caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def ask(self, request: Request) -> Row:
        """The members of the reply. Raises the error that the request was refused with."""
        return LIFECYCLE.decode(self._transport.send(request))

    def calls(self, *, state: str | None = None, tool: str | None = None, limit: int = 50) -> Rows:
        """The newest calls of all callers, the newest first."""
        found: Rows = self.ask(calls.encode_list({"state": state, "tool": tool, "limit": str(limit)}))["calls"]
        return found

    def show(self, call_id: str, wait_s: float = 0.0, family: str | None = None) -> Row:
        """The call, once it has ended or `wait_s` seconds are over."""
        which = calls.WhichCall(call_id, self._caller, family)
        call: Row = drive(shown(lambda wait: calls.encode_show(which, wait), wait_s), self._transport)
        return call

    def cancel(self, call_id: str, family: str | None = None) -> Row:
        """The call after that: cancelled, or as it had ended before."""
        return self.ask(calls.encode_cancel(calls.WhichCall(call_id, self._caller, family)))


class AuditClient(OperatorClient):
    """Reads and checks the audit log, which is too long for one request: a method asks for one part after another."""

    def chains(self) -> Rows:
        """Every chain, with its name, head and anchor."""
        chains: Rows = self.ask(audit.encode_list())["chains"]
        return chains

    def heads(self) -> Rows:
        """The head of every chain that has one."""
        return [chain["head"] for chain in self.chains() if chain["head"] is not None]

    def entries(self, chain: str, after: int = 0, since: float | None = None) -> Iterator[Row]:
        """The entries of the blocks after that number, the oldest first, each with its chain and block."""
        while blocks := self.ask(audit.encode_read(chain, after, since))["blocks"]:
            for block in blocks:
                yield from ({"chain": chain, "block": block["number"], **entry} for entry in block["entries"])
            after = blocks[-1]["number"]

    def newest(self, count: int) -> Rows:
        """The newest entries of all chains, the oldest of them first."""
        found: Rows = []
        for head in sorted(self.heads(), key=lambda head: head["at"], reverse=True):
            if len(found) == count and head["at"] < found[0].get("at", 0.0):
                break  # what this chain and the remaining ones have is older
            # Each block has an entry at least, so the last `count` blocks are enough.
            found += self.entries(head["chain"], max(head["number"] - count, 0))
            found = sorted(found, key=lambda entry: entry.get("at", 0.0))[-count:]
        return found

    def verify(self, chain: str, heads: Sequence[Head]) -> audit.AuditFinding:
        """Checks a chain to its end, or up to the first thing that is wrong. `heads` are heads of this chain that were
        exported before: each must be in it still."""
        place = audit.PlaceText()
        while True:
            check = audit.encode_check(audit.AuditCheck(chain, place, tuple(heads)))
            finding = msgspec.convert(self.ask(check), audit.AuditFinding)
            if finding.done or finding.wrong is not None:
                return finding
            place = finding.place


def heads_in(lines: bytes) -> list[Head]:
    """Heads that were exported, a line of JSON each. Raises ValueError."""
    try:
        heads = [decode_as(line, Head) for line in lines.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    for head in heads:
        audit.mark_of(head)
    return heads
