"""Rules as they stand in the settings, read with a sentence for whatever is wrong."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from msgspec import Struct

from ..model.caller import LOCAL
from ..model.patterns import tool_pattern
from .access import Rule, Who
from .identity import Identity

T = TypeVar("T")


class WrongTable(ValueError):
    """A sentence about one of a setting's tables, which it names. `number` is its place among them."""

    def __init__(self, sentence: str, number: int = 1) -> None:
        super().__init__(sentence)
        self.number = number


class WorkerRule(Struct, frozen=True):
    """Which tools whose workers may offer, and for whom. The first one that is about the worker's caller decides."""

    who: Who = Who()
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


def _is_pattern(text: str) -> bool:
    return any(letter in text for letter in "*?[")


def read_rules(given: Any) -> list[Rule]:
    """Of `access`. Raises ValueError."""
    return each_table(given, "access", _rule)


def read_worker_rules(given: Any) -> list[WorkerRule]:
    """Of `workers`. Raises ValueError."""
    return each_table(given, "workers", _worker_rule)


def _rule(table: Mapping[str, Any], at: str) -> Rule:
    only(table, at, "who", "tools", "allow", "scopes", "name")
    allow, scopes = table.get("allow", True), texts_of(table.get("scopes", ()), f"{at}.scopes")
    if not isinstance(allow, bool):
        raise ValueError(f"{at}.allow must be true or false, got {allow!r}")
    if scopes and not allow:
        raise ValueError(f"{at} forbids, so it can ask for no scopes")
    name = table.get("name", at)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{at}.name must be text")
    return Rule(patterns_of(table, at), who_of(table.get("who", {}), f"{at}.who"), allow, scopes, name)


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


def who_of(table: Any, at: str) -> Who:
    if not isinstance(table, Mapping):
        raise ValueError(f'{at} must be a table such as {{ subject = "user-*" }}')
    only(table, at, "subject", "tenant", "key", "scope", "claim")
    claims = table.get("claim", {})
    if not isinstance(claims, Mapping):
        raise ValueError(f'{at}.claim must be a table such as {{ role = "admin" }}')
    texts = {name: texts_of(table.get(name, ()), f"{at}.{name}") for name in ("subject", "tenant", "key", "scope")}
    return Who(**texts, claim={name: texts_of(value, f"{at}.claim.{name}") for name, value in claims.items()})


def patterns_of(table: Mapping[str, Any], at: str) -> tuple[str, ...]:
    patterns = texts_of(table.get("tools", "*"), f"{at}.tools")
    for pattern in patterns:
        try:
            tool_pattern(pattern)
        except ValueError as error:
            raise ValueError(f"{at}.tools: {pattern!r} is not a pattern. {error}") from None
    if not patterns:
        raise ValueError(f"{at}.tools must name some tools; leave it out for all of them")
    return patterns


def each_table(given: Any, name: str, read: Callable[[Mapping[str, Any], str], T]) -> list[T]:
    """What `read` makes of each, which is also told what it is called. Raises WrongTable for one that is not right, and
    ValueError where these are no tables."""
    if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
        raise ValueError(f"a list of tables: [[{name}]]")
    made = []
    for number, table in enumerate(given, 1):
        try:
            made.append(read(table, f"{name}[{number}]"))
        except ValueError as error:
            raise WrongTable(str(error), number) from None
    return made


def texts_of(given: Any, at: str) -> tuple[str, ...]:
    values = (given,) if isinstance(given, str) else given
    if isinstance(values, list | tuple) and all(isinstance(value, str) and value for value in values):
        return tuple(values)
    raise ValueError(f"{at} must be text or a list of texts, got {given!r}")


def only(table: Mapping[str, Any], at: str, *known: str) -> None:
    for name in table:
        if name not in known:
            raise ValueError(f"{at} has no {name!r}; it has {', '.join(known)}")
