"""How much a caller may leave behind, in memory and in the ledger: one table of quotas, and whoever holds callers to
it.

Limits are about calls and how fast they come; quotas are about what stays when a request was answered. What has rows is
counted in the ledger, so a quota holds on all nodes together and outlives a restart, and what is removed gives its room
back. Bytes are added up there, too, and each node hears twice a second who has too many.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...model.asset import Asset
from ...model.caller import Caller
from ...model.errors import LimitReached
from ...store.contract import Store
from ...store.values import Held, StoreDown
from ..tables import only
from .limits import Limiter

EVERY_S = 0.5
RETRY_MS = 60_000
"""When to come back: nobody knows when there is room, and not sooner than somebody has ended something."""
MOST_KNOWN = 10_000
UNLIMITED = 2**62
"""Stands for no quota where the store needs a number: more bytes than any ledger has, in 64 bits with a sign."""
MOST = 2**50
"""The largest number that the settings may have."""
_log = logging.getLogger("toolyard.limits")


class Amount(Struct, frozen=True):
    """How much there may be of something, for each caller and for each tenant. None: any number."""

    caller: int | None = None
    tenant: int | None = None


class Quota(Struct, frozen=True):
    """One row of the table: what it bounds, as a sentence has it, and how much of it there may be where the settings
    say nothing."""

    name: str
    what: str
    away: Amount
    """The amount where others can reach the server."""
    loopback: Amount
    """The amount where only this machine can: what would end the server by its memory has a bound there, too."""
    advice: str = ""
    """What a caller that has no more room can do."""


QUOTAS = (
    Quota(
        "mcp_sessions", "open MCP sessions", Amount(10_000, 100_000), Amount(10_000),
        "end some with DELETE, or wait: one that is not used ends after a week",
    ),
    Quota(
        "sessions", "sessions", Amount(100_000, 1_000_000), Amount(100_000),
        "wait: a session is removed some time after its last message",
    ),
    Quota("session_tools", "tools that one session brings", Amount(256), Amount(1024)),
    Quota("tool_uses", "tool uses in one message", Amount(256), Amount(1024)),
    Quota("subscriptions", "resources and tasks that one client follows", Amount(256), Amount(1024)),
    Quota("workers", "registered workers", Amount(100, 1000), Amount(1000), "unregister some with DELETE"),
    Quota(
        "waiting_calls", "calls that wait", Amount(1000, 10_000), Amount(10_000),
        "let some be answered, or cancel them",
    ),
    Quota(
        "running_calls", "recorded calls that run on one node", Amount(1000, 10_000), Amount(10_000),
        "let some end, or cancel them",
    ),
    Quota(
        "stored_bytes", "bytes kept in the ledger", Amount(8 * 2**30, 64 * 2**30), Amount(),
        "wait: calls are removed some time after they have ended",
    ),
)  # fmt: skip
"""A row for everything that a caller can leave behind."""
NAMES = {quota.name: quota for quota in QUOTAS}
Table = Mapping[str, Amount]
Given = Mapping[str, Mapping[str, int | None]]
"""By name, what the settings say for each `caller` and each `tenant`."""


def read_quotas(given: Any) -> dict[str, dict[str, int | None]]:
    """The setting `quotas`, as it was given: by name, a number for each caller, or `{caller = …, tenant = …}`; 0 is any
    number. Raises ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError("a table such as {sessions = 1000}")
    only(given, "quotas", *NAMES)
    return {name: _said(value, NAMES[name], f"quotas.{name}") for name, value in given.items()}


def _said(given: Any, quota: Quota, at: str) -> dict[str, int | None]:
    if not isinstance(given, Mapping):
        return {"caller": _number(given, at)}
    only(given, at, "caller", "tenant")
    if "tenant" in given and quota.away.tenant is None:
        raise ValueError(f"{at} without a tenant: it is about one session, message or client")
    return {whose: _number(number, f"{at}.{whose}") for whose, number in given.items()}


def _number(given: Any, at: str) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST:
        raise ValueError(f"{at} must be a whole number from 0 to {MOST}, or {{caller = …, tenant = …}}, got {given!r}")
    return given or None


def quotas_of(given: Given, *, is_away: bool) -> dict[str, Amount]:
    """The amounts that hold: each row's own, but for what the settings say. `is_away`: others can reach the server."""
    return {
        quota.name: replace(quota.away if is_away else quota.loopback, **given.get(quota.name, {})) for quota in QUOTAS
    }


class Quotas:
    """Holds callers to their quotas. `store` counts what they have left behind."""

    def __init__(self, table: Table, store: Store, limiter: Limiter | None = None) -> None:
        """`limiter` is None where nothing is limited."""
        self._table, self._store, self._limiter = table, store, limiter
        self.has_full = False
        """Whether anybody at all has no room left. Every call looks at this first, and most of the time at no more."""
        self._full: set[tuple[str, str]] = set()
        self._full_tenants: set[str] = set()
        self._spare: OrderedDict[tuple[str, str, str | None], int] = OrderedDict()
        """How many more may come before they are counted again: a tenth of the room that there was, so that the count
        is exact where it matters. By what, whose tenant and which caller, or None for the tenant as a whole."""
        self._running: dict[tuple[str, str | None], int] = {}
        """Recorded calls that run on this node, by tenant and caller, or None for the tenant as a whole."""
        self._busy: set[tuple[str, str | None]] = set()

    def limit_by(self, limiter: Limiter) -> None:
        """Has what is opened count by the minute from now on, where it did not."""
        self._limiter = limiter

    def most(self, name: str) -> int:
        """How much there may be of what is bounded for each session, message or client, and not by caller."""
        return _or_unlimited(self._table[name].caller)

    async def open(self, what: Held, caller: Caller, besides: str = "") -> None:
        """Makes sure of room for one more of what is no call, such as a session. To open one also counts as a call by
        the minute, where a limit is for all tools: or else opening and ending sessions would cost a stranger nothing.
        Raises LimitReached."""
        counted = None if self._limiter is None else self._limiter.count(Asset("sessions", what), caller)
        try:
            await self.room(what, caller, besides=besides)
        # Also where the client has left: what was not opened does not count.
        except BaseException:
            if counted is not None:
                counted.take_back()
            raise

    async def room(self, what: Held, caller: Caller, more: int = 1, besides: str = "") -> None:
        """Makes sure of room for so many more, of the caller's and of its tenant's. Several nodes that count at the
        same time may each let one in: a quota is a bound on what is kept, not a lock. Raises LimitReached."""
        self.refuse_full(caller)
        amount = self._table[what]
        for subject, most in ((caller.subject, amount.caller), (None, amount.tenant)):
            if most is None:
                continue
            key = (what, caller.tenant, subject)
            # Taken out and put in again, an entry goes to the end: the one that was not used for longest makes room.
            spare = self._spare.pop(key, 0)
            # Only now is the ledger asked, which is a query for each of caller and tenant.
            if spare < more:
                there = await self._store.count_held(what, caller.tenant, subject, most, besides)
                if there + more > most:
                    raise self._refusal(what, most, subject)
                spare = max(more, (most - there) // 10)
            self._spare[key] = spare - more
            if len(self._spare) > MOST_KNOWN:
                self._spare.popitem(last=False)

    def refuse_full(self, caller: Caller) -> None:
        """Raises LimitReached where the ledger keeps as much for a caller, or its tenant, as it may, or as many of its
        calls run here as may."""
        if not self.has_full:
            return
        self.refuse_stored(caller)
        for name, subject, is_full in (
            ("running_calls", caller.subject, (caller.tenant, caller.subject) in self._busy),
            ("running_calls", None, (caller.tenant, None) in self._busy),
        ):
            if is_full:
                amount = self._table[name]
                raise self._refusal(name, _or_unlimited(amount.tenant if subject is None else amount.caller), subject)

    def refuse_stored(self, caller: Caller) -> None:
        """Raises LimitReached where the ledger keeps as much for a caller, or its tenant, as it may."""
        amount = self._table["stored_bytes"]
        if (caller.tenant, caller.subject) in self._full:
            raise self._refusal("stored_bytes", _or_unlimited(amount.caller), caller.subject)
        if caller.tenant in self._full_tenants:
            raise self._refusal("stored_bytes", _or_unlimited(amount.tenant), None)

    def begin(self, tenant: str, subject: str) -> None:
        """One more recorded call runs on this node, until `end`. It is not refused here, since what was let in before
        may be run again; but those who come later are, as `refuse_full` says."""
        amount = self._table["running_calls"]
        whose: tuple[tuple[str | None, int | None], ...] = ((subject, amount.caller), (None, amount.tenant))
        for each, most in whose:
            running = self._running[tenant, each] = self._running.get((tenant, each), 0) + 1
            if most is not None and running >= most:
                self._busy.add((tenant, each))
                self.has_full = True

    def end(self, tenant: str, subject: str) -> None:
        """A call that began has ended on this node."""
        keys: tuple[tuple[str, str | None], ...] = ((tenant, subject), (tenant, None))
        for key in keys:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]
        # Room came back: whoever was at the bound is below it now.
        if self._busy:
            self._busy.difference_update(keys)
            self._look_again()

    async def follow(self) -> None:
        """Follows who has no room left for bytes, and who has some again, until cancelled. While the ledger cannot be
        reached, nothing can be kept anyway."""
        while True:
            try:
                await self.look()
            except StoreDown as down:
                _log.debug("nobody knows who has room: %s", down.developer_message)
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Asks the ledger who keeps as many bytes as they may. Raises StoreDown."""
        amount = self._table["stored_bytes"]
        self._full, self._full_tenants = await self._store.full(
            _or_unlimited(amount.caller), _or_unlimited(amount.tenant)
        )
        self._look_again()

    def _look_again(self) -> None:
        self.has_full = bool(self._full or self._full_tenants or self._busy)

    @property
    def counts_bytes(self) -> bool:
        """Whether there is a quota on bytes at all, so that somebody has to follow it."""
        return self._table["stored_bytes"] != Amount()

    def _refusal(self, name: str, most: int, subject: str | None) -> LimitReached:
        quota = NAMES[name]
        whose = "each tenant" if subject is None else "each caller"
        shown = f"{most:,}"
        return LimitReached(
            f"There is no room left: {shown} {quota.what} are the most there may be; {quota.advice}",
            retry_after_ms=RETRY_MS,
            developer_message=f"quotas.{name}: {shown} for {whose}",
        )


def _or_unlimited(most: int | None) -> int:
    return UNLIMITED if most is None else most
