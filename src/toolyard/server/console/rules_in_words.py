"""Access and approval rules as sentences, for the console's page of tools: whom a rule is about, and what it says of a
tool."""

from collections.abc import Iterable, Sequence

from ...model.tool import Tool
from ...trust.access.access import CallerPattern, Rule
from ...trust.approvals.rules import ApprovalRule

EVERYBODY = "everybody"
NO_RULES = "Everybody whom this server lets in: there are no access rules."


def who_in_words(who: CallerPattern) -> str:
    """Which callers a rule is about."""
    parts = [
        *_part("the subject", who.subject),
        *_part("the tenant", who.tenant),
        *_part("the API key", who.key),
        *([f"credentials for {' and '.join(who.scope)}"] if who.scope else []),
        *(part for name, values in who.claim.items() for part in _part(f"the claim {name}", values)),
    ]
    return f"callers with {', and with '.join(parts)}" if parts else EVERYBODY


def exposed_to(tool: Tool, rules: Sequence[Rule]) -> list[str]:
    """Who sees a tool, a line for each rule in the order in which they count: the first that fits a caller decides."""
    lines = [*_tenants(tool)]
    if not rules:
        return [*lines, NO_RULES]
    for rule in rules:
        if not rule.is_about(tool):
            continue
        lines.append(f"{rule.name}: {who_in_words(rule.who)} {_verdict(rule)}")
        if rule.who == CallerPattern():
            return lines
    return [*lines, "Nobody else sees it: no rule allows it."]


def approvals_of(tool: Tool, rules: Sequence[ApprovalRule]) -> list[str]:
    """Which calls of a tool wait for a person, a line for each rule; an empty list where none does."""
    lines = [_approval(rule) for rule in rules if rule.is_about(tool)]
    own = tool.approval
    if own == "always":
        return [*lines, f"{'Otherwise every' if lines else 'Every'} call of it waits: its author says so."]
    if own is not None:
        return [*lines, f"{'Otherwise calls' if lines else 'Calls'} wait whose input its author's function picks."]
    return lines if any(rule.ask and rule.is_about(tool) for rule in rules) else []


def _tenants(tool: Tool) -> Iterable[str]:
    if tool.tenants is not None:
        yield f"Only to callers of {' or '.join(tool.tenants)}: its workers serve no other tenant."


def _verdict(rule: Rule) -> str:
    if not rule.allow:
        return "may not see it."
    return f"may call it with credentials for {' and '.join(rule.scopes)}." if rule.scopes else "may call it."


def _approval(rule: ApprovalRule) -> str:
    conditions = [f"{name} is over {limit:g}" for name, limit in rule.over.items()]
    conditions += ["a function of the settings says so of its input"] if rule.when is not None else []
    condition = f" if {' and '.join(conditions)}" if conditions else ""
    return f"{rule.name}: calls of {who_in_words(rule.who)} {'wait' if rule.ask else 'do not wait'}{condition}."


def _part(what: str, values: Sequence[str]) -> list[str]:
    return [f"{what} {' or '.join(values)}"] if values else []
