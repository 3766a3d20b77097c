"""Which callers see and may call which tools: the `[[access]]` tables of the settings, and the views made of them.

Rules are data: the first one that is about the caller and the tool decides; where there are rules and none fits, the
tool is not there, and looks exactly like one that does not exist.

Rules are matched when somebody is authenticated, not when they call. Callers about whom the same rules say the same
share a view, and a view remembers its verdict on each tool, so that a rule costs nothing when a call is made.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from ...model.asset import Asset
from ...model.caller import ALL, Caller, CurrentView, Reach, View, Visibility
from ...model.errors import Forbidden
from ...model.tool import Tool
from ..tables import each_table, only, patterns_of, texts_of
from .identity import Identity

MOST_VIEWS = 1000
"""Tokens with made-up scopes and claims could otherwise fill the memory; a view that went is made again."""
MOST_VERDICTS = 20_000
APPROVE = "approve"
"""The scope of callers who may approve or reject calls of others in their tenant."""
METRICS = "metrics"
"""The scope of callers who may read the metrics, which count everybody's calls."""
ELSEWHERE = Visibility(False, rule="its worker does not serve this tenant")


class CallerPattern(Struct, frozen=True):
    """Whom a rule is about, as its `who` says: whoever fits all members that are given. Texts may have `*` and `?`."""

    subject: tuple[str, ...] = ()
    tenant: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    """The names of API keys."""
    scope: tuple[str, ...] = ()
    """Scopes that the credential must have, all of them."""
    claim: Mapping[str, tuple[str, ...]] = {}
    """Claims of a token, by name, and the patterns of which one must fit."""

    def fits(self, who: Identity) -> bool:
        """Whether the rule is about somebody."""
        return (
            _fits(self.subject, who.subject)
            and _fits(self.tenant, who.tenant)
            and _fits(self.key, who.key)
            and (who.scopes is None or set(self.scope) <= who.scopes)
            and all(_claims(who.claims.get(name), wanted) for name, wanted in self.claim.items())
        )


class Rule(Struct, frozen=True):
    """One `[[access]]` table: who may have which tools. `tools` has patterns of ids (`Calculator.*`), tags (`#math`)
    and marks (`@read_only`), and of prompts and resources (`prompts/*`)."""

    tools: tuple[str, ...] = ("*",)
    who: CallerPattern = CallerPattern()
    allow: bool = True
    scopes: tuple[str, ...] = ()
    """Scopes that a call needs besides. A caller that lacks one sees the tool, and is refused with the scope's name,
    so that its client can ask for credentials that have it."""
    name: str = ""

    def is_about(self, tool: Tool | Asset) -> bool:
        return any(matches(pattern, tool) for pattern in self.tools)


class Access:
    """Makes callers of identities. Each caller has the view that the rules give it, which it shares with all others
    about whom the rules say the same."""

    def __init__(
        self, rules: Sequence[Rule] = (), limited: Sequence[CallerPattern] = (), asking: Sequence[CallerPattern] = ()
    ) -> None:
        """`limited`: whom each limit is about; `asking`: whom each rule for approvals is about. Which of them are about
        a caller is part of its view, so that nobody has to match them again for each call."""
        self._asking = asking
        self._callers: WeakKeyDictionary[CurrentView, Identity] = WeakKeyDictionary()
        """The views of all callers that there are, and whose they are."""
        self.adopt(rules, limited)

    def adopt(self, rules: Sequence[Rule], limited: Sequence[CallerPattern], first_limit: int = 0) -> None:
        """Follows these rules and limits from now on, and has all callers that were made before follow them, too.
        Limits have numbers, from `first_limit`, by which the limiter knows them."""
        self._rules, self._limited, self._first_limit = rules, limited, first_limit
        self._named = frozenset(scope for rule in rules for scope in rule.scopes)
        self._views: OrderedDict[Any, View] = OrderedDict()
        for current, identity in list(self._callers.items()):
            current.view = self.view(identity)

    def caller(self, identity: Identity) -> Caller:
        """The caller that an identity is to everything behind authentication."""
        is_operator = identity.scopes is None or METRICS in identity.scopes
        return Caller(
            identity.tenant,
            identity.subject,
            None,
            self._current_of(identity),
            is_operator,
            identity.how,
            identity.key,
            may_approve=identity.scopes is not None and APPROVE in identity.scopes,
            digest=identity.digest,
            expires=identity.expires,
            issuer=identity.issuer,
        )

    def _current_of(self, identity: Identity) -> CurrentView:
        current = CurrentView(self.view(identity))
        self._callers[current] = identity
        return current

    def view(self, identity: Identity) -> View:
        """What there is for somebody, made once for all whom it is the same for."""
        fitting = tuple(index for index, rule in enumerate(self._rules) if rule.who.fits(identity))
        # Scopes that no rule names make no difference, and must not make another view.
        scopes = None if identity.scopes is None else identity.scopes & self._named
        limits = tuple(number for number, who in enumerate(self._limited, self._first_limit) if who.fits(identity))
        asks = tuple(number for number, who in enumerate(self._asking) if who.fits(identity))
        profile = (identity.tenant, identity.allow, fitting, scopes, limits, asks)
        view = self._views.get(profile)
        if view is None:
            view = self._new(identity, [self._rules[index] for index in fitting], scopes)
            view.limits, view.asks = limits, asks
            self._views[profile] = view
            if len(self._views) > MOST_VIEWS:
                self._views.popitem(last=False)
        return view

    def _new(self, identity: Identity, rules: Sequence[Rule], scopes: frozenset[str] | None) -> View:
        if not self._rules and not identity.allow:
            return TenantsView(identity.tenant)
        rules = rules if self._rules else [Rule(name="there are no rules")]
        return RuledView(identity.tenant, identity.allow, rules, scopes)


class TenantsView(View):
    """The view of callers where there are no rules: everything but the tools of other tenants' workers."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant

    def of(self, tool: Tool) -> Visibility:
        return ALL if self.sees(tool) else ELSEWHERE

    def sees(self, tool: Tool) -> bool:
        return tool.tenants is None or self._tenant in tool.tenants


class RuledView(View):
    """The view of callers about whom a set of rules is: what those rules say of each tool, remembered."""

    def __init__(
        self, tenant: str, allow: tuple[str, ...], rules: Sequence[Rule], scopes: frozenset[str] | None
    ) -> None:
        self._tenant, self._allow, self._rules, self._scopes = tenant, allow, rules, scopes
        self.reach = Reach(allow, scopes)
        self._verdicts: dict[Tool, Visibility] = {}

    def sees(self, tool: Tool) -> bool:
        return self.of(tool).sees

    def lacks(self, tool: Tool) -> tuple[str, ...]:
        return self.of(tool).lacks

    def of(self, tool: Tool) -> Visibility:
        verdict = self._verdicts.get(tool)
        if verdict is None:
            # Tools come and go with workers; to start over is rare, and cheaper than to keep an order.
            if len(self._verdicts) >= MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[tool] = self._judge(tool)
        return verdict

    def _judge(self, tool: Tool) -> Visibility:
        # No rule can show a tool to a tenant that its worker does not serve.
        if tool.tenants is not None and self._tenant not in tool.tenants:
            return ELSEWHERE
        return self._ruled(tool)

    def may_have_seen(self, tool_id: str) -> bool:
        """What tags and marks the tool had is not known: who is let see tools by these may have seen it."""
        ids = [pattern.partition("@")[0] for pattern in self._allow]
        return not ids or any(id[:1] in ("", "#") or fnmatchcase(tool_id, id) for id in ids)

    def of_offer(self, offer: Asset) -> Visibility:
        """What the rules say of a prompt or a resource, however it is spelled: a spelling that a rule forbids is
        forbidden under each other spelling, too. Verdicts are not remembered here: callers make up addresses as they
        like."""
        verdicts = [self._ruled(each) for each in offer.spellings()]
        return next((each for each in verdicts if not each.sees or each.lacks), verdicts[0])

    def _ruled(self, tool: Tool | Asset) -> Visibility:
        # What an API key is for narrows what the rules give, and never widens it.
        if self._allow and not any(matches(pattern, tool) for pattern in self._allow):
            return Visibility(False, rule=f"the key is for {', '.join(self._allow)}")
        for rule in self._rules:
            if rule.is_about(tool):
                lacks = () if self._scopes is None else tuple(each for each in rule.scopes if each not in self._scopes)
                return Visibility(rule.allow, lacks if rule.allow else (), rule.name)
        return Visibility(False, rule="no rule allows it")


def refuse_lacking(tool: Tool, caller: Caller) -> None:
    """Raises Forbidden where the caller's credentials are not for a tool that it sees."""
    lacks = caller.view.lacks(tool)
    if lacks:
        raise Forbidden(f"{tool.id} needs credentials that are for {', '.join(lacks)}", lacks)


def refuse_offer(offer: Asset, verdict: Visibility) -> None:
    """As `refuse_lacking`, for a prompt or a resource that the caller sees. Raises Forbidden."""
    if verdict.lacks:
        raise Forbidden(f"{offer.path} needs credentials that are for {', '.join(verdict.lacks)}", verdict.lacks)


def matches(pattern: str, tool: Tool | Asset) -> bool:
    """Whether a pattern of a rule is about a tool: its tag (`#math`), its mark (`@read_only`), or its id, perhaps with
    a version (`Bank.*@2`). A prompt or a resource has patterns of its own, with a slash; `*` is everything."""
    if isinstance(tool, Asset):
        return pattern == "*" or ("/" in pattern and fnmatchcase(tool.path, pattern))
    if pattern.startswith("#"):
        return pattern[1:] in tool.tags
    if pattern.startswith("@"):
        return _mark(tool, pattern[1:])
    id, _, version = pattern.partition("@")
    if not version:
        return fnmatchcase(tool.id, id)
    # `@2` is the version 2.0.0 and nothing else; all versions of it are `@2.*`.
    return fnmatchcase(tool.id, id) and fnmatchcase(
        str(tool.version), f"{version}.0.0" if version.isdigit() else version
    )


def _mark(tool: Tool, name: str) -> bool:
    """Whether a tool has a mark. One of a worker that nobody trusts has those that call for care, whatever the worker
    says: a rule that keeps destructive tools away must not be escaped by saying that a tool is none."""
    hints = tool.hints
    marks = {
        "read_only": hints.read_only,
        "idempotent": hints.idempotent,
        "destructive": hints.destructive is True or not tool.is_trusted,
        "open_world": hints.open_world is True or not tool.is_trusted,
    }
    return marks[name]


def _fits(patterns: Iterable[str], value: str | None) -> bool:
    """Whether a value fits one of the patterns. Where there is no pattern nothing is asked, and anything fits."""
    patterns = tuple(patterns)
    return not patterns or (value is not None and any(fnmatchcase(value, pattern) for pattern in patterns))


def _claims(value: Any, wanted: tuple[str, ...]) -> bool:
    """Whether a claim fits one of the patterns; of a claim that is a list, one item has to."""
    values = value if isinstance(value, list) else [value]
    return any(_fits(wanted, _as_text(each)) for each in values if each is not None)


def _as_text(value: Any) -> str:
    """A claim as JSON and TOML write it: Python's `True` would never fit what an operator wrote."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def read_rules(given: Any) -> list[Rule]:
    """The rules of the setting `access`, as it was given. Raises ValueError."""
    return each_table(given, "access", _rule)


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


def who_of(table: Any, at: str) -> CallerPattern:
    """The member `who` of a rule, of whichever kind. Raises ValueError."""
    if not isinstance(table, Mapping):
        raise ValueError(f'{at} must be a table such as {{ subject = "user-*" }}')
    only(table, at, "subject", "tenant", "key", "scope", "claim")
    claims = table.get("claim", {})
    if not isinstance(claims, Mapping):
        raise ValueError(f'{at}.claim must be a table such as {{ role = "admin" }}')
    texts = {name: texts_of(table.get(name, ()), f"{at}.{name}") for name in ("subject", "tenant", "key", "scope")}
    return CallerPattern(**texts, claim={name: texts_of(value, f"{at}.claim.{name}") for name, value in claims.items()})
