"""Which calls wait for a person: in doubt, they do."""

from typing import Any

import pytest

from toolyard import Toolkit
from toolyard.model.caller import LOCAL
from toolyard.model.errors import MissingRequirements
from toolyard.model.tool import Tool
from toolyard.trust.approvals.rules import ApprovalRule, ApprovalRules


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
