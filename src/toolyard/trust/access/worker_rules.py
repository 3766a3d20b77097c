"""Which tools the workers of a caller may offer, and who then sees them: the `[[workers]]` tables of the settings.

A worker is a stranger that brings definitions. Without rules it serves its own tenant alone, and what it says of its
tools is not believed; an operator who trusts it, or names it, says so here.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from ...model.caller import LOCAL
from ..tables import each_table, is_pattern, only, patterns_of, texts_of
from .access import CallerPattern, who_of
from .identity import Identity


class WorkerRule(Struct, frozen=True):
    """One `[[workers]]` table: which tools whose workers may offer, and to whom. The first rule that is about the
    worker's caller decides."""

    who: CallerPattern = CallerPattern()
    tools: tuple[str, ...] = ("*",)
    tenants: tuple[str, ...] = ()
    """Tenants whose callers see the tools, besides the worker's own; `*` is all of them."""
    trusted: bool = False
    """Whether the worker's word for what a tool does counts: its tags, and whether it only reads; and whether patterns
    of secrets, and users' accounts, are for its tools as they are for the server's own."""

    @property
    def other_tenants(self) -> frozenset[str] | None:
        """The tenants besides the worker's own that see its tools. None: all of them."""
        return None if "*" in self.tenants else frozenset(self.tenants)

    def lets(self, tool_id: str) -> bool:
        """Whether the worker may offer a tool of this id."""
        return any(fnmatchcase(tool_id, pattern) for pattern in self.tools)

    def names(self, tenant: str, subject: str, tool_id: str) -> bool:
        """Whether the rule names exactly this caller and this tool, which is what an operator has to do before secrets
        go to a worker that is not trusted. A pattern names nobody: others may fit it, too. A rule without a tenant
        means the one that there is where nobody uses tenants."""
        is_tenant = tenant in self.who.tenant if self.who.tenant else tenant == LOCAL.tenant
        # A caller called `*` would otherwise be named by every rule that has that pattern.
        is_exact = not is_pattern(subject) and not is_pattern(tenant)
        return is_exact and is_tenant and subject in self.who.subject and tool_id in self.tools


class WorkerRules:
    """All rules for workers of a server. Without any, a worker may offer what it likes to its own tenant."""

    def __init__(self, rules: Sequence[WorkerRule] = ()) -> None:
        self._rules = rules or [WorkerRule()]
        self.are_given = bool(rules)

    def of(self, tenant: str, subject: str) -> WorkerRule | None:
        """The rule for a caller's workers; None where that caller may have no workers."""
        identity = Identity(tenant, subject)
        return next((rule for rule in self._rules if rule.who.fits(identity)), None)


def read_worker_rules(given: Any) -> list[WorkerRule]:
    """The rules of the setting `workers`, as it was given. Raises ValueError."""
    return each_table(given, "workers", _worker_rule)


def _worker_rule(table: Mapping[str, Any], at: str) -> WorkerRule:
    only(table, at, "who", "tools", "tenants", "trusted")
    trusted = table.get("trusted", False)
    if not isinstance(trusted, bool):
        raise ValueError(f"{at}.trusted must be true or false, got {trusted!r}")
    patterns, who = patterns_of(table, at), who_of(table.get("who", {}), f"{at}.who")
    # Rules are asked again when the ledger is read, long after a worker's credentials were seen.
    if who.key or who.scope or who.claim:
        raise ValueError(f"{at}.who: a worker is known by its subject and tenant alone")
    # Tags and marks are the worker's own word: it could fit any such pattern by saying so.
    if any(pattern[0] == "#" or "@" in pattern or "/" in pattern for pattern in patterns):
        raise ValueError(f"{at}.tools: what a worker may offer goes by ids without versions, such as Sms.*")
    tenants = texts_of(table.get("tenants", ()), f"{at}.tenants")
    if any("*" in tenant and tenant != "*" for tenant in tenants):
        raise ValueError(f"{at}.tenants: name each tenant, or all of them with *")
    return WorkerRule(who, patterns, tenants, trusted)
