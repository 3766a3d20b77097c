"""How much each caller, tenant, address or tool may call: so many calls a minute, and so many at once. These are the
`[[limits]]` tables of the settings, those that hold where the settings say nothing, and the limiter that decides.

Every limit that is about a call must allow it. Decisions are made in memory, with the meters of `meters`; what other
nodes use counts as of the last time they said so (`usage_sharing`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from ipaddress import ip_address, ip_network
from typing import Any

from msgspec import Struct

from ...model.asset import Asset
from ...model.caller import Caller
from ...model.errors import LimitReached
from ...model.tool import Tool
from ...store.values import Usage
from ..access.access import CallerPattern, matches, who_of
from ..tables import WrongTable, each_table, only, patterns_of, texts_of
from .meters import MINUTE_MS, NOTHING, UNLIMITED, Admitted, CountedCall, Meter, added, refusal

FULL_RETRY_MS = 1000
"""When to come back where too many run at once: nobody knows when a call ends, so this is a guess."""
MOST_GATES = 20_000
"""Combinations of caller, address and tool of which it is remembered which meters they are on."""
MOST_METERS = 100_000
MOST_NETWORKS = 20_000
PER = ("caller", "tenant", "address", "tool")
"""What a limit may count by."""
MOST = 10**6
"""The largest number that a table may have: what is meant to be unlimited is left out."""


class Limit(Struct, frozen=True):
    """One `[[limits]]` table. Each combination of what is named in `per` has its own count."""

    name: str
    per: tuple[str, ...] = ("caller",)
    who: CallerPattern = CallerPattern()
    tools: tuple[str, ...] = ("*",)
    calls_per_minute: int | None = None
    at_once: int | None = None

    def is_about(self, tool: Tool | Asset) -> bool:
        return any(matches(pattern, tool) for pattern in self.tools)

    def in_words(self) -> str:
        """The limit as a sentence, for whoever runs the server."""
        most = [f"{self.calls_per_minute} a minute"] if self.calls_per_minute else []
        most += [f"{self.at_once} at once"] if self.at_once else []
        return f"{self.name}: {' and '.join(most)}, for each {' and '.join(self.per)}"

    def key(self, tool: Tool | Asset, caller: Caller) -> tuple[str, ...] | None:
        """Whose count a call is on. None where the limit is by address and the caller has none, as over a pipe."""
        parts: tuple[str, ...] = (self.name,)
        for each in self.per:
            if each == "caller":
                parts += (caller.tenant, caller.subject)
            elif each == "address":
                if not caller.address:
                    return None
                parts += (network_of(caller.address),)
            else:
                parts += (caller.tenant if each == "tenant" else tool.id,)
        return parts


class Limiter:
    """Lets calls in, or says when to come back. `clock` counts seconds and is never set: nobody is locked out because
    the time of day was. Only the minutes that nodes share are those of the ledger's clock.

    Which meters a call is on is found once for each caller, address and tool, and remembered: its gate.
    """

    def __init__(self, limits: Sequence[Limit], clock: Callable[[], float]) -> None:
        self._limits, self._clock = list(limits), clock
        self._gates: dict[Any, tuple[Meter, ...]] = {}
        self._meters: dict[tuple[str, ...], Meter] = {}
        self._limit_of: dict[bytes, Limit] = {}
        self._away: dict[bytes, Usage] = {}
        self.ahead_ms = 0
        """By how much the ledger's time is ahead of this clock's. Kept by `usage_sharing`."""

    def adopt(self, limits: Sequence[Limit]) -> int:
        """Follows these limits from now on; what was counted under a limit's name still counts. The number of the
        first: those before keep theirs, because callers who are under way know them by it."""
        first, by_name = len(self._limits), {limit.name: limit for limit in limits}
        self._limits += limits
        self._gates = {}
        for key, meter in self._meters.items():
            if (limit := by_name.get(key[0])) is not None:
                meter.allow(limit.calls_per_minute or UNLIMITED, limit.at_once or UNLIMITED)
                self._limit_of[meter.name] = limit
        return first

    def admit(self, tool: Tool | Asset, caller: Caller) -> Admitted:
        """Counts a call, under every limit that is about it, or under none: raises LimitReached before it has counted
        anything. This runs for every call, which is why it has parts of `Meter` written out."""
        now_ms = int(self._clock() * 1000)
        window = (now_ms + self.ahead_ms) // MINUTE_MS
        # The view is part of it: it says which limits are about the caller.
        who = (caller.view, tool, caller.tenant, caller.subject, caller.address)
        meters = self._gates.get(who)
        if meters is None:
            meters = self._find(who, tool, caller, now_ms)
        for meter in meters:
            if meter.at_ms != now_ms:
                meter.advance(now_ms, window)
            if meter.debt > meter.room or meter.running + meter.away_running >= meter.at_once:
                raise self._refusal(meters, now_ms)
        for meter in meters:
            meter.used += 1
            meter.running += 1
            meter.debt += MINUTE_MS
            meter.has_news = True
        return Admitted(meters, window)

    def count(self, use: Asset, caller: Caller) -> CountedCall:
        """As `admit`, for what is no run, such as a new session: it counts by the minute and not among those at once.
        Raises LimitReached."""
        now_ms, window = self._moment()
        meters = self._find(None, use, caller, now_ms)
        for meter in meters:
            meter.advance(now_ms, window)
            if meter.wait_ms():
                raise self._refusal(meters, now_ms)
        for meter in meters:
            meter.used += 1
            meter.debt += MINUTE_MS
            meter.has_news = True
        return CountedCall(meters, window)

    def news(self) -> list[Usage]:
        """What was used here since this was last asked, for other nodes."""
        changed = [meter for meter in self._meters.values() if meter.has_news]
        for meter in changed:
            meter.has_news = False
        return [Usage(meter.name, meter.window, meter.used, meter.before, meter.running) for meter in changed]

    def say_again(self) -> None:
        """Has `news` tell everything once more: the last news did not reach the ledger."""
        for meter in self._meters.values():
            meter.has_news = True

    def hear(self, uses: Iterable[Usage]) -> None:
        """Takes in what each of the other nodes used by now."""
        now_ms, window = self._moment()
        self._away = added(uses, window)
        for meter in self._meters.values():
            meter.advance(now_ms, window)
            meter.hear(self._away.get(meter.name, NOTHING), now_ms + self.ahead_ms)

    def drop_idle(self) -> None:
        """Forgets the meters that would decide nothing any more."""
        now_ms, window = self._moment()
        idle = []
        for key, meter in self._meters.items():
            meter.advance(now_ms, window)
            # What was used in this minute and the last still counts for other nodes.
            if not (meter.running or meter.debt or meter.used or meter.before):
                idle.append(key)
        self._drop(idle)

    def __len__(self) -> int:
        """How many counts are kept."""
        return len(self._meters)

    def _moment(self) -> tuple[int, int]:
        """The time on the clock, and the minute that all nodes are in."""
        now_ms = int(self._clock() * 1000)
        return now_ms, (now_ms + self.ahead_ms) // MINUTE_MS

    def _drop(self, keys: Iterable[tuple[str, ...]]) -> None:
        for key in keys:
            del self._limit_of[self._meters.pop(key).name]
            self._gates = {}  # a gate that held a dropped meter would go on counting with it, for itself alone

    def _find(self, who: Any, tool: Tool | Asset, caller: Caller, now_ms: int) -> tuple[Meter, ...]:
        """The meters that a call is on, which are remembered as the gate `who`."""
        if len(self._meters) >= MOST_METERS - len(self._limits):
            self._make_room()
        if len(self._gates) >= MOST_GATES:
            self._gates = {}
        about = [limit for limit in (self._limits[number] for number in caller.view.limits) if limit.is_about(tool)]
        keys = [(limit, key) for limit in about if (key := limit.key(tool, caller)) is not None]
        found = tuple(self._meters.get(key) or self._new_meter(key, limit, now_ms) for limit, key in keys)
        if not isinstance(tool, Asset):  # callers make up the names of assets; tools there are only so many of
            self._gates[who] = found
        return found

    def _new_meter(self, key: tuple[str, ...], limit: Limit, now_ms: int) -> Meter:
        shared_ms = now_ms + self.ahead_ms
        most, at_once = limit.calls_per_minute or UNLIMITED, limit.at_once or UNLIMITED
        meter = Meter(_digest(key), now_ms, shared_ms // MINUTE_MS, most, at_once)
        self._meters[key], self._limit_of[meter.name] = meter, limit
        # Other nodes may have used it before this one first heard of the caller.
        meter.hear(self._away.get(meter.name, NOTHING), shared_ms)
        return meter

    def _make_room(self) -> None:
        """Drops what is idle and then the oldest meters that nothing runs under, down to nine tenths: to drop them one
        by one would cost every new caller a search."""
        self.drop_idle()
        spare = [key for key, meter in self._meters.items() if not meter.running]
        self._drop(spare[: max(0, len(self._meters) - MOST_METERS * 9 // 10)])

    def _refusal(self, meters: Iterable[Meter], now_ms: int) -> LimitReached:
        """The error that names the limit that takes longest to allow the call: whoever waits that long is let in."""
        waits: list[tuple[int, str]] = []
        for meter in meters:
            meter.advance(now_ms, (now_ms + self.ahead_ms) // MINUTE_MS)
            limit = self._limit_of[meter.name]
            per = " and ".join(limit.per)
            waits.append((meter.wait_ms(), f"{limit.name}: {limit.calls_per_minute} calls a minute per {per}"))
            if meter.is_full:
                waits.append((FULL_RETRY_MS, f"{limit.name}: {limit.at_once} at once per {per}"))
        return refusal(*max(waits))


def network_of(address: str) -> str:
    """What an address is counted as. An IPv6 address stands for its whole /64 network: providers give out nothing
    smaller, so whoever has one address has 2**64 of them."""
    if ":" not in address:
        return address
    network = _networks.get(address)
    if network is None:
        if len(_networks) >= MOST_NETWORKS:
            _networks.clear()
        network = _networks[address] = _network(address)
    return network


def _network(address: str) -> str:
    try:
        ip: Any = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.version == 6 and ip.ipv4_mapped:  # ::ffff:192.0.2.1, as a socket for both versions shows an IPv4 client
        return str(ip.ipv4_mapped)
    return str(ip_network(f"{ip}/64", strict=False)) if ip.version == 6 else str(ip)


_networks: dict[str, str] = {}
"""By address, of those that came lately: to parse one costs more than to count it."""


def _digest(key: Sequence[str]) -> bytes:
    """The name of a meter in the ledger: the same on all nodes, and nobody's name in the clear."""
    digest = blake2b(digest_size=16)
    for part in key:
        said = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(said) + said)  # with its length, so that ("ab", "c") is not ("a", "bc")
    return digest.digest()


DEFAULTS = (
    Limit("calls of one caller", ("caller",), calls_per_minute=600, at_once=64),
    Limit("calls from one address", ("address",), calls_per_minute=1200),
)
"""The limits of a server that others can reach, where the settings have none."""
OVER_PIPES = (Limit("calls over the pipe", ("caller",), calls_per_minute=6000, at_once=256),)
"""The limits of a server that one program started. No person's work comes near them; a program that has run wild
does."""


def read_limits(given: Any) -> list[Limit]:
    """The limits of the setting `limits`, as it was given. Raises ValueError."""
    read = each_table(given, "limits", _limit)
    names = [limit.name for limit in read]
    # The name is part of a meter's key: two limits of one name would share their counts.
    if twice := {name for name in names if names.count(name) > 1}:
        raise WrongTable(f"there are two limits called {min(twice)!r}; give each a name of its own")
    return read


def _limit(table: Mapping[str, Any], at: str) -> Limit:
    only(table, at, "who", "tools", "per", "calls_per_minute", "at_once", "name")
    per = texts_of(table.get("per", "caller"), f"{at}.per")
    if not per or not set(per) <= set(PER):
        raise ValueError(f"{at}.per must be one or some of {', '.join(PER)}, got {table.get('per')!r}")
    calls, at_once = (_number(table.get(name), f"{at}.{name}") for name in ("calls_per_minute", "at_once"))
    if calls is None and at_once is None:
        raise ValueError(f"{at} must have calls_per_minute, at_once or both")
    name = table.get("name", at)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{at}.name must be text")
    return Limit(name, per, who_of(table.get("who", {}), f"{at}.who"), patterns_of(table, at), calls, at_once)


def _number(given: Any, at: str) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MOST):
        return given
    raise ValueError(f"{at} must be a whole number from 1 to {MOST}, got {given!r}")
