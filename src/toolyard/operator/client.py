"""The client of whoever runs the server: it looks after the calls of all callers, after API keys and after secrets.

The client of whoever reads the audit log, or checks it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import msgspec

from ..client.client import Rows, Transport, drive
from ..client.flows import (
    cancel_any_call,
    decide_approval,
    disconnect,
    explain,
    list_all_calls,
    list_approvals,
    list_connections,
    list_keys,
    list_offers,
    list_secrets,
    make_console_code,
    make_key,
    remove_secret,
    revoke_key,
    rotate_secrets,
    set_secret,
    settle_call,
    show_any_call,
)
from ..model.json_value import decode_as
from ..model.sealed import WhichSecret
from ..model.worker import ToolDefinition
from ..wires.admin import audit as wire
from ..wires.admin.explain import ExplainQuery, Explanation
from ..wires.contract import Request
from ..wires.lifecycle.calls import LIFECYCLE


class OperatorClient:
    """Has the verbs of a `Client` that are about calls, and more. `caller` says whose call is meant where several
    callers have one of that id."""

    def __init__(self, sending: Transport, caller: str | None = None) -> None:
        self._sending, self._caller = sending, caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sending.close()

    def calls(self, *, state: str | None = None, tool: str | None = None, limit: int = 50) -> Rows:
        """The newest first."""
        calls: Rows = drive(list_all_calls({"state": state, "tool": tool, "limit": str(limit)}), self._sending)
        return calls

    def show(self, call_id: str, wait_s: float = 0.0) -> dict[str, Any]:
        """After at most `wait_s` seconds if it is still running."""
        call: dict[str, Any] = drive(show_any_call(call_id, self._caller, wait_s), self._sending)
        return call

    def cancel(self, call_id: str) -> dict[str, Any]:
        """The call after that: cancelled, or as it had ended before."""
        call: dict[str, Any] = drive(cancel_any_call(call_id, self._caller), self._sending)
        return call

    def resolve(self, call_id: str, how: Mapping[str, Any]) -> dict[str, Any]:
        """Settles a call that ended as `outcome_unknown`. `how` is one of {"done": value}, {"failed": message} and
        {"rerun": True}."""
        call: dict[str, Any] = drive(settle_call(call_id, self._caller, how), self._sending)
        return call

    def new_key(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Makes an API key. `wanted` has a name and perhaps allow, scopes, expiresAt, tenant and subject. What is
        returned has the key itself, which nobody will say again."""
        made: dict[str, Any] = drive(make_key(wanted), self._sending)
        return made

    def explain(self, asked: ExplainQuery) -> Explanation:
        """Why a caller may call a tool, or may not."""
        explanation: Explanation = drive(explain(asked), self._sending)
        return explanation

    def offers(self) -> list[ToolDefinition]:
        """The tools that workers offer now, as they say it themselves."""
        offers: list[ToolDefinition] = drive(list_offers(), self._sending)
        return offers

    def console_code(self) -> dict[str, Any]:
        """A new code for the console, which lets one browser in, and where."""
        made: dict[str, Any] = drive(make_console_code(), self._sending)
        return made

    def keys(self) -> Rows:
        """All API keys, the oldest first."""
        keys: Rows = drive(list_keys(), self._sending)
        return keys

    def approvals(self, limit: int | None = None) -> tuple[Rows, int]:
        """The calls that wait for a person's yes, the oldest first; and how many others there are."""
        found: dict[str, Any] = drive(list_approvals(limit), self._sending)
        return found["approvals"], found.get("more", 0)

    def decide(self, id: str, approved: bool, reason: str = "") -> dict[str, Any]:
        """Says yes or no to one of them."""
        decided: dict[str, Any] = drive(decide_approval(id, approved, reason), self._sending)
        return decided

    def revoke_key(self, name: str) -> dict[str, Any]:
        """The key after that."""
        revoked: dict[str, Any] = drive(revoke_key(name), self._sending)
        return revoked

    def connections(self, *, tenant: str | None = None, user: str | None = None) -> Rows:
        """Users' accounts at providers."""
        connections: Rows = drive(list_connections({"tenant": tenant, "user": user}), self._sending)
        return connections

    def disconnect(self, provider: str, user: str, tenant: str | None = None) -> dict[str, Any]:
        """What there was; `revoked` is whether the provider took its tokens back."""
        unwanted = {"provider": provider, "user": user, "tenant": tenant}
        ended: dict[str, Any] = drive(disconnect(unwanted), self._sending)
        return ended

    def set_secret(self, which: WhichSecret, value: str, tools: Sequence[str]) -> dict[str, Any]:
        """What is known of it then. `tools` are patterns; none: every tool that declares it."""
        secret: dict[str, Any] = drive(set_secret(which, value, tools), self._sending)
        return secret

    def secrets(self) -> Rows:
        """All of them, and those that tools declare and nobody has set. Never their values."""
        secrets: Rows = drive(list_secrets(), self._sending)
        return secrets

    def remove_secret(self, which: WhichSecret) -> dict[str, Any]:
        removed: dict[str, Any] = drive(remove_secret(which), self._sending)
        return removed

    def rotate_secrets(self) -> dict[str, Any]:
        """Has everything that is sealed sealed with the first of the keys."""
        done: dict[str, Any] = drive(rotate_secrets(), self._sending)
        return done


Row = dict[str, Any]
Head = wire.HeadText


def heads_in(lines: bytes) -> list[Head]:
    """Heads that were exported, a line each. Raises ValueError."""
    try:
        heads = [decode_as(line, Head) for line in lines.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    for head in heads:
        wire.mark_of(head)
    return heads


class AuditClient:
    """Asks for one part of the log after another."""

    def __init__(self, sending: Transport) -> None:
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

    def verify(self, chain: str, heads: Sequence[Head]) -> wire.AuditFinding:
        """All of a chain, as far as it is whole, against heads of it that were exported."""
        place = wire.PlaceText()
        while True:
            asked = wire.encode_check(wire.AuditCheck(chain, place, tuple(heads)))
            checked = msgspec.convert(self._ask(asked), wire.AuditFinding)
            if checked.done or checked.wrong is not None:
                return checked
            place = checked.place

    def _ask(self, request: Request) -> Row:
        return LIFECYCLE.decode(self._sending.send(request))
