"""trust/access/worker_rules.py"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from ...model.caller import LOCAL
from ..tables import _is_pattern, each_table, only, patterns_of, texts_of
from .access import CallerPattern, who_of
from .identity import Identity


class WorkerRule(Struct, frozen=True):
    """Which tools whose workers may offer, and for whom. The first one that is about the worker's caller decides."""

    who: CallerPattern = CallerPattern()
    tools: tuple[str, ...] = ("*",)
    tenants: tuple[str, ...] = ()
    """Those whose callers see the tools, besides the worker's own; `*` is all of them."""
    trusted: bool = False
    """Whether its word for what a tool does counts: its tags, and whether it only reads; and whether patterns of
    secrets, and users' accounts, are for its tools as they are for the server's own."""

    @property
    def houses(self) -> frozenset[str] | None:
        """The tenants besides the worker's own. None: everybody."""
        return None if "*" in self.tenants else frozenset(self.tenants)

    def lets(self, tool_id: str) -> bool:
        return any(fnmatchcase(tool_id, pattern) for pattern in self.tools)

    def names(self, tenant: str, subject: str, tool_id: str) -> bool:
        """Whether it is about exactly this caller and this tool. A pattern names nobody: others may fit it, too. Who
        names no tenant means the one that there is where there are no others."""
        is_tenant = tenant in self.who.tenant if self.who.tenant else tenant == LOCAL.tenant
        is_exact = not _is_pattern(subject) and not _is_pattern(tenant)
        return is_exact and is_tenant and subject in self.who.subject and tool_id in self.tools


class WorkerRules:
    """All of them. Without any, a worker may offer what it likes to its own tenant."""

    def __init__(self, rules: Sequence[WorkerRule] = ()) -> None:
        self._rules = rules or [WorkerRule()]
        self.are_given = bool(rules)

    def of(self, tenant: str, subject: str) -> WorkerRule | None:
        """None where that caller may have no workers."""
        identity = Identity(tenant, subject)
        return next((rule for rule in self._rules if rule.who.fits(identity)), None)


def read_worker_rules(given: Any) -> list[WorkerRule]:
    """Of `workers`. Raises ValueError."""
    return each_table(given, "workers", _worker_rule)


def _worker_rule(table: Mapping[str, Any], at: str) -> WorkerRule:
    only(table, at, "who", "tools", "tenants", "trusted")
    trusted = table.get("trusted", False)
    if not isinstance(trusted, bool):
        raise ValueError(f"{at}.trusted must be true or false, got {trusted!r}")
    patterns, who = patterns_of(table, at), who_of(table.get("who", {}), f"{at}.who")
    if who.key or who.scope or who.claim:
        raise ValueError(f"{at}.who: a worker is known by its subject and tenant alone")
    if any(pattern[0] == "#" or "@" in pattern or "/" in pattern for pattern in patterns):
        raise ValueError(f"{at}.tools: what a worker may offer goes by ids without versions, such as Sms.*")
    tenants = texts_of(table.get("tenants", ()), f"{at}.tenants")
    if any("*" in tenant and tenant != "*" for tenant in tenants):
        raise ValueError(f"{at}.tenants: name each tenant, or all of them with *")
    return WorkerRule(who, patterns, tenants, trusted)
