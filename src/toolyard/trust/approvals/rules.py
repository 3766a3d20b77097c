"""Which calls wait for a person's yes: the `[[approvals]]` tables of the settings, read and decided by.

A call that waits is a call in the ledger, so a yes is for that call and its input, and for it alone: it cannot be used
for another, nor twice. Where the yes is given is in `links`, what becomes of the call in `engine/approvals.py`.

Rules are asked with the input as it came, before the tool runs. In doubt a person is asked: a condition that cannot be
decided, because an author's function raises or a number is none, never lets a call through.
"""

import inspect
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...model.caller import Caller
from ...model.errors import DefinitionError, nobody_can_approve
from ...model.predicate import UNKNOWN, Predicate, defaults_of, misfit, place_of, with_defaults, with_inner_defaults
from ...model.raised import named, shown
from ...model.tool import Tool
from ..access.access import CallerPattern, matches, who_of
from ..tables import each_table, only, patterns_of

"""What a call may wait for."""
EVERYBODY = CallerPattern()
ABSENT = object()
"""A member that the tool does not have."""
_log = logging.getLogger("toolyard.approvals")


class ApprovalRule(Struct, frozen=True):
    """One `[[approvals]]` table. Of the rules that are about a tool and its caller the first whose conditions hold
    decides: a person is asked where its `ask` is true, and spared where it is false."""

    tools: tuple[str, ...] = ("*",)
    who: CallerPattern = EVERYBODY
    over: Mapping[str, float] = {}
    """Members of the input and the numbers that they must exceed, each of them, for the rule to hold."""
    when: Predicate | None = None
    """An author's function that is called with the input, and must return True for the rule to hold."""
    ask: bool = True
    name: str = ""

    def is_about(self, tool: Tool) -> bool:
        return any(matches(pattern, tool) for pattern in self.tools)

    def holds(self, tool: Tool, input: Mapping[str, Any]) -> bool:
        """Whether all of the rule's conditions hold for this input. Where that cannot be told, because its function
        raises, what should be a number is none or a default is not known before the call, a rule that asks holds, and
        one that spares a person does not. What a caller leaves out counts as the tool's default for it, or else leaving
        it out would be a way around."""
        if self.over:
            taken = _taken(tool, input)
            if not all(
                _exceeds(taken.get(name, ABSENT), limit, otherwise=self.ask) for name, limit in self.over.items()
            ):
                return False
        return self.when is None or asked(self.when, tool, input, otherwise=self.ask)


class ApprovalRules:
    """All rules of a server: decides whether a call needs a person's yes, which it then waits for `wait_s` long."""

    def __init__(self, rules: Sequence[ApprovalRule], wait_s: float, nobody_approves: str = "") -> None:
        """`nobody_approves`: why nobody can say yes to a call of this server, and what to do about it; empty where
        somebody can."""
        self._rules, self.wait_s, self._nobody_approves = rules, wait_s, nobody_approves

    def may_be_needed(self, tool: Tool) -> bool:
        """Whether there is a call of the tool that would have to wait. Asked once for each tool, so that the calls of
        all others pass by without looking at any rule."""
        return tool.approval is not None or any(rule.ask and rule.is_about(tool) for rule in self._rules)

    def are_needed(self, tool: Tool, input: Mapping[str, Any], caller: Caller) -> bool:
        """Whether this call has to wait. The settings' rules come first, so that an operator can ask for more, or for
        less, than the tool's author did."""
        for number, rule in enumerate(self._rules):
            # Which rules are about a caller was found when it was authenticated, by their numbers.
            fits = rule.who == EVERYBODY or number in caller.view.asks
            if fits and rule.is_about(tool) and rule.holds(tool, input):
                return rule.ask
        if callable(tool.approval):
            return asked(tool.approval, tool, input)
        return tool.approval is not None

    def refuse_where_nobody_can(self, tool_name: str) -> None:
        """Raises MissingRequirements: a call that nobody can agree to must not wait for it."""
        if self._nobody_approves:
            raise nobody_can_approve(tool_name, self._nobody_approves)


def check_functions(rules: Sequence[ApprovalRule], tools: Iterable[Tool]) -> None:
    """Raises DefinitionError for a rule's function that cannot be asked about one of these tools."""
    asking = [(rule, rule.when) for rule in rules if rule.when is not None]
    for tool in tools:
        for rule, when in asking:
            if rule.is_about(tool) and (why := misfit(when, tool.input_schema)):
                name = getattr(when, "__qualname__", repr(when))
                raise DefinitionError(f"{rule.name}.when cannot be asked about {tool.id}: {name} {why}", place_of(when))


def asked(predicate: Predicate, tool: Tool, input: Mapping[str, Any], *, otherwise: bool = True) -> bool:
    """What an author's function says of a call; `otherwise` where it raises, returns anything but a bool, or cannot be
    told what the tool would be called with."""
    arguments = with_defaults(input, tool.input_schema if tool.called_with is None else tool.called_with)
    if UNKNOWN in arguments.values():
        _log.warning("whether %s needs an approval depends on a default that is not known before the call", tool.id)
        return otherwise
    if tool.called_with is not None:  # a stranger's schema, which may be anything, is not followed further down
        arguments = defaults_of(tool.input_schema) | with_inner_defaults(arguments, tool.called_with)
    try:
        said = predicate(**arguments)
    except BaseException as raised:  # an author's code, which may also call sys.exit
        _log.warning("the function that says whether %s needs an approval raised %s", tool.id, named(raised))
        return otherwise
    if not isinstance(said, bool):
        _log.warning(
            "the function that says whether %s needs an approval gave %s; it must be True or False",
            tool.id,
            shown(said),
        )
        return otherwise
    return said


def _taken(tool: Tool, input: Mapping[str, Any]) -> dict[str, Any]:
    """What a rule's numbers are compared with. A member that the author's own schema has, and the function takes in
    `**more`, has the default of the schema, or else one that only the function knows."""
    listed = with_defaults(input, tool.input_schema)
    return listed if tool.called_with is None else listed | with_defaults(input, tool.called_with)


def waits(tool_name: str) -> str:
    """What callers and people are told of a call that needs a person's yes."""
    return f"{tool_name} waits for approval by a person"


def _exceeds(value: Any, limit: float, *, otherwise: bool) -> bool:
    """Whether a member of the input is larger than a rule's number; `otherwise` where it is no number. A member that
    the tool does not have exceeds nothing. Amounts of money may be text, where a tool takes them so, and are compared
    as decimals: a float would round them."""
    if value is ABSENT:
        return False
    try:
        # True is an int to Python, and no amount.
        number = (
            Decimal(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else Decimal("nan")
        )
        return otherwise if number.is_nan() else number > limit
    except InvalidOperation:
        return otherwise


def read_approvals(given: Any) -> list[ApprovalRule]:
    """The rules of the setting `approvals`, as it was given. Raises ValueError."""
    return each_table(given, "approvals", _rule)


def _rule(table: Mapping[str, Any], at: str) -> ApprovalRule:
    only(table, at, "who", "tools", "over", "when", "ask", "name")
    ask, name = table.get("ask", True), table.get("name", at)
    if not isinstance(ask, bool):
        raise ValueError(f"{at}.ask must be true or false, got {ask!r}")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{at}.name must be text")
    patterns, who = patterns_of(table, at), who_of(table.get("who", {}), f"{at}.who")
    return ApprovalRule(patterns, who, _over(table, at), _when(table, at), ask, name)


def _over(table: Mapping[str, Any], at: str) -> dict[str, float]:
    over = table.get("over", {})
    numbers = isinstance(over, Mapping) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) for value in over.values()
    )
    if not numbers:
        raise ValueError(f"{at}.over must be a table of finite numbers such as {{ cents = 1000 }}")
    return dict(over)


def _when(table: Mapping[str, Any], at: str) -> Predicate | None:
    """The function that a rule names as `module:function`, imported now: a rule that cannot be asked must not wait
    until a call needs it."""
    if "when" not in table:
        return None
    module, _, function = str(table["when"]).partition(":")
    if not module or not function:
        raise ValueError(f"{at}.when must name a function, such as rules:is_large")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # where the settings are, and the tools
    try:
        found: Predicate = getattr(import_module(module), function)
    except (Exception, SystemExit) as error:  # its author's code
        raise ValueError(f"{at}.when: {table['when']} cannot be had: {type(error).__name__}: {error}") from None
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ValueError(f"{at}.when: {table['when']} must be a function that is not async")
    return found
