"""Which calls wait for a person's yes, and where that person can give it.

A call that waits is a call in the ledger, so a yes is for that call and its input, and for it alone: it cannot be used
for another, nor twice. Its address has the call's number and a signature over the number, the caller and the input; to
say yes there takes a code besides, made likewise, which callers are not shown: whoever asks must not be able to answer.

Rules for approvals as they stand in the settings.
"""

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from hmac import compare_digest
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...model.caller import Caller
from ...model.channel import Question
from ...model.errors import Challenge, DefinitionError, Missing, MissingRequirements, nobody_can_approve
from ...model.lifecycle import WaitingFor
from ...model.predicate import Predicate, defaults_of, misfit, place_of
from ...model.raised import named, shown
from ...model.record import CallName
from ...model.tool import Tool
from ..access.access import CallerPattern, matches, who_of
from ..sealing.ring import KeyRing
from ..tables import each_table, only, patterns_of
from .links import _CODE, _SIGNED, PATH, THEN, _code, _id, plain

"""What a call may wait for."""
EVERYBODY = CallerPattern()
_log = logging.getLogger("toolyard.approvals")


class ApprovalRule(Struct, frozen=True):
    """Of the rules that are about a tool and its caller the first whose conditions hold decides."""

    tools: tuple[str, ...] = ("*",)
    who: CallerPattern = EVERYBODY
    over: Mapping[str, float] = {}
    """Members of the input and what they must exceed, each of them."""
    when: Predicate | None = None
    ask: bool = True
    name: str = ""

    def is_about(self, tool: Tool) -> bool:
        return any(matches(pattern, tool) for pattern in self.tools)

    def holds(self, tool: Tool, input: Mapping[str, Any]) -> bool:
        """Where that cannot be told, because its function raises or what should be a number is none, a rule that asks
        holds, and one that spares a person the look does not. What a caller leaves out counts as what the tool then
        takes."""
        over = all(
            _exceeds(input.get(name, defaults_of(tool.input_schema).get(name)), limit, otherwise=self.ask)
            for name, limit in self.over.items()
        )
        return over and (self.when is None or asked(self.when, tool, input, otherwise=self.ask))


class ApprovalRules:
    """`base_url` is this server's address, for whoever asks when nobody called."""

    def __init__(
        self, rules: Sequence[ApprovalRule], ring: KeyRing, wait_s: float, base_url: Callable[[], str]
    ) -> None:
        self._rules, self._ring, self.wait_s, self.base_url = rules, ring, wait_s, base_url
        self.nobody = ""
        """Why nobody can say yes, where that is so; and what to do."""

    def may_be_needed(self, tool: Tool) -> bool:
        """Whether there is a call of it that would have to wait. Asked once a tool."""
        return tool.approval is not None or any(rule.ask and rule.is_about(tool) for rule in self._rules)

    def are_needed(self, tool: Tool, input: Mapping[str, Any], caller: Caller) -> bool:
        for number, rule in enumerate(self._rules):
            fits = rule.who == EVERYBODY or number in caller.view.asks
            if fits and rule.is_about(tool) and rule.holds(tool, input):
                return rule.ask
        if callable(tool.approval):
            return asked(tool.approval, tool, input)
        return tool.approval is not None

    def refuse_where_nobody_can(self, tool_name: str) -> None:
        """Raises MissingRequirements: a call that nobody can agree to must not wait for it."""
        if self.nobody:
            raise nobody_can_approve(tool_name, self.nobody)

    def missing(self, tool_name: str, call: CallName, base_url: str) -> MissingRequirements:
        """What is said of a call that waits."""
        id = self.id_of(call)
        url = f"{base_url}{PATH}/{id}"
        return MissingRequirements(
            f"{waits(tool_name)}; {THEN}",
            Missing(authorization=(Challenge(id, url, f"{url}/status"),), approval=True),
            developer_message=f"call again once {url} says that it was approved; it is for this input alone",
        )

    def question(self, tool_name: str, call: CallName) -> Question:
        """As a client's person is sent there."""
        url = f"{self.base_url()}{PATH}/{self.id_of(call)}"
        return Question(WaitingFor.APPROVAL, "url", waits(tool_name), url=url)

    def id_of(self, call: CallName) -> str:
        return _id(call.seq, self._ring.sign(_SIGNED, call.encoded()))

    def is_id(self, given: str, call: CallName) -> bool:
        """Whether this address was given out for that call."""
        ids = [_id(call.seq, each) for each in self._ring.signatures(_SIGNED, call.encoded())]
        return any(compare_digest(id.encode(), given.encode()) for id in ids)

    def code_of(self, call: CallName) -> str:
        """What a person has to know to decide at the address. Operators are shown it, callers are not."""
        return _code(self._ring.sign(_CODE, call.encoded()))

    def is_code(self, given: str, call: CallName) -> bool:
        typed = plain(given).encode()
        codes = map(_code, self._ring.signatures(_CODE, call.encoded()))
        return any(compare_digest(typed, plain(code).encode()) for code in codes)


def check_functions(rules: Sequence[ApprovalRule], tools: Iterable[Tool]) -> None:
    """Raises DefinitionError for a rule's function that cannot be asked about one of these tools."""
    asking = [(rule, rule.when) for rule in rules if rule.when is not None]
    for tool in tools:
        for rule, when in asking:
            if rule.is_about(tool) and (why := misfit(when, tool.input_schema)):
                name = getattr(when, "__qualname__", repr(when))
                raise DefinitionError(f"{rule.name}.when cannot be asked about {tool.id}: {name} {why}", place_of(when))


def asked(predicate: Predicate, tool: Tool, input: Mapping[str, Any], *, otherwise: bool = True) -> bool:
    """What it says; `otherwise` where it raises, or says neither yes nor no."""
    try:
        said = predicate(**{**defaults_of(tool.input_schema), **input})
    except BaseException as raised:  # an author's code
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


def waits(tool_name: str) -> str:
    """What people are told of a call that needs one of them."""
    return f"{tool_name} waits for approval by a person"


def _exceeds(value: Any, limit: float, *, otherwise: bool) -> bool:
    """Amounts may be text, where a tool takes them so. Nothing does not exceed; of what is no number nobody can say."""
    if value is None:
        return False
    try:
        number = (
            Decimal(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else Decimal("nan")
        )
        return otherwise if number.is_nan() else number > limit
    except InvalidOperation:
        return otherwise


def read_approvals(given: Any) -> list[ApprovalRule]:
    """Of `approvals`. Raises ValueError."""
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
