"""Which calls wait for a person: in doubt, they do."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, Field

from toolyard import Toolkit
from toolyard.engine.worker_tools import tool_of as workers_tool
from toolyard.model.caller import LOCAL
from toolyard.model.errors import MissingRequirements
from toolyard.model.tool import Tool
from toolyard.trust.approvals.rules import ApprovalRule, ApprovalRules
from toolyard.worker.definitions import definition_of


def pay(cents: str = "5000", to: str = "shop") -> str:
    """Pays."""
    return to


def tool_of(**options: Any) -> Tool:
    kit = Toolkit("Bank")
    kit.tool(pay, **options)
    return next(iter(kit.tools))


def is_asked(input: dict[str, Any], *rules: ApprovalRule, **options: Any) -> bool:
    return ApprovalRules(rules, 60.0).are_needed(tool_of(**options), input, LOCAL)


OVER = ApprovalRule(over={"cents": 1000})


@pytest.mark.parametrize(
    ("cents", "asked"), [("999", False), ("1000", False), ("1000.01", True), ("lots", True), ("NaN", True)]
)
def test_a_number_that_is_none_is_asked_about(cents: str, asked: bool) -> None:
    assert is_asked({"cents": cents}, OVER) is asked


def test_what_a_caller_leaves_out_counts_as_the_tools_default() -> None:
    assert is_asked({"to": "shop"}, OVER)


def test_in_doubt_a_rule_that_spares_a_person_does_not_hold() -> None:
    def breaks(**input: Any) -> bool:
        raise SystemExit

    asks = ApprovalRule()
    assert is_asked({}, ApprovalRule(when=breaks, ask=False), asks)
    assert is_asked({}, ApprovalRule(over={"cents": 1000}, ask=False), asks) is False
    assert is_asked({"cents": "lots"}, ApprovalRule(over={"cents": 1000}, ask=False), asks)


def test_the_operators_rules_come_before_what_the_author_said() -> None:
    assert is_asked({}, approval="always")
    assert not is_asked({}, ApprovalRule(ask=False), approval="always")


def test_a_call_that_nobody_can_agree_to_is_refused_at_once() -> None:
    ApprovalRules([ApprovalRule()], 60.0).refuse_where_nobody_can("Bank_Pay")
    with pytest.raises(MissingRequirements):
        ApprovalRules([ApprovalRule()], 60.0, "there is no page here").refuse_where_nobody_can("Bank_Pay")


# --- what is left out ----------------------------------------------------------------------------

OWN = {"type": "object", "properties": {"cents": {"type": "integer"}}}
LIED = {"type": "object", "properties": {"cents": {"type": "integer", "default": 1}}}


def is_large(**input: Any) -> bool:
    return int(input.get("cents", 0)) > 1000


def plain(cents: int = 5000) -> None: ...


def made(cents: Annotated[int, Field(default_factory=lambda: 5000)]) -> None: ...


def more(**more: Any) -> None: ...


def renamed(cents: Annotated[int, Field(validation_alias=AliasChoices("cents", "Cents"))] = 1) -> None: ...


CASES = [(plain, {}), (plain, {"input_schema": OWN}), (plain, {"input_schema": LIED}), (made, {})]


def defined(function: Any, **options: Any) -> Tool:
    kit = Toolkit("Bank")
    kit.tool(function, **options)
    return next(iter(kit.tools))


def served_by_a_worker(tool: Tool) -> Tool:
    return workers_tool(definition_of(tool), "w", None, is_trusted=True)


def judged(tool: Tool, *rules: ApprovalRule, input: dict[str, Any] | None = None) -> bool:
    return ApprovalRules(rules, 60.0).are_needed(tool, input or {}, LOCAL)


@pytest.mark.parametrize("place", [lambda tool: tool, served_by_a_worker], ids=["here", "at a worker"])
@pytest.mark.parametrize("rule", [OVER, ApprovalRule(when=is_large)], ids=["over", "when"])
@pytest.mark.parametrize(("function", "options"), CASES)
def test_leaving_out_an_amount_is_no_way_around_a_rule(
    function: Any, options: dict[str, Any], rule: ApprovalRule, place: Callable[[Tool], Tool]
) -> None:
    tool = place(defined(function, **options))
    assert judged(tool, rule)
    assert judged(tool, rule, input={"cents": 5000})
    assert not judged(tool, rule, input={"cents": 10})


@pytest.mark.parametrize(("function", "options"), CASES)
def test_nor_around_the_tools_own_function(function: Any, options: dict[str, Any]) -> None:
    assert judged(defined(function, approval=is_large, **options))


def test_what_a_function_takes_in_more_has_the_default_of_the_schema_or_none_that_is_known() -> None:
    assert judged(defined(more, input_schema=OWN), OVER)
    assert not judged(defined(more, input_schema=LIED), OVER)
    assert not judged(defined(more, input_schema=OWN), ApprovalRule(when=is_large))  # it is called without it, too
    other = {"type": "object", "properties": {"to": {"type": "string"}}}
    assert not judged(defined(more, input_schema=other), OVER)


def test_a_factory_of_pythons_own_makes_what_everybody_knows() -> None:
    def tagged(cents: int, tags: Annotated[list[str], Field(default_factory=list)]) -> None: ...

    def is_tagged(cents: int, tags: list[str] | None = None) -> bool:
        return tags != []

    rule = ApprovalRule(when=is_tagged)
    assert not judged(defined(tagged), rule, input={"cents": 1})
    assert not judged(served_by_a_worker(defined(tagged)), rule, input={"cents": 1})


class Sum(BaseModel):
    cents: int = 5000


def test_a_function_is_told_the_defaults_of_objects_within_the_input() -> None:
    def pays(sums: list[Sum | None], one: Sum | None = None) -> None: ...

    def is_large(sums: list[dict[str, int] | None], one: dict[str, int] | None = None) -> bool:
        return any(each.get("cents", 0) > 1000 for each in [*sums, one] if each is not None)

    tool, rule = defined(pays), ApprovalRule(when=is_large)
    assert judged(tool, rule, input={"sums": [None, {}]})
    assert judged(tool, rule, input={"sums": [], "one": {}})
    assert not judged(tool, rule, input={"sums": [{"cents": 1}], "one": None})


def test_a_parameter_has_no_other_name_than_the_one_that_rules_look_at() -> None:
    assert defined(renamed, input_schema=OWN).code.bind({"Cents": 5000}) == {"cents": 1}


def test_a_worker_offers_the_defaults_of_its_functions() -> None:
    def offered(function: Any, **options: Any) -> Any:
        return definition_of(defined(function, **options)).input_schema["properties"]["cents"]

    assert offered(plain, input_schema=LIED) == {"type": "integer", "default": 5000}
    assert offered(made, input_schema=LIED) == {"type": "integer"}
    assert offered(plain, input_schema={"type": "object", "properties": {"cents": True}}) == {"default": 5000}
    assert offered(more, input_schema=LIED) == {"type": "integer", "default": 1}
