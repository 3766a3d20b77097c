"""Patterns of tools: what is one, and that what could fit nothing is none."""

import pytest

from toolyard.model.patterns import MARKS, tool_pattern
from toolyard.trust.access.access import matches

from ..trust.access.test_access import TOOLS


@pytest.mark.parametrize(
    "given",
    [
        "*", "K*", "*Add", "Kit.*", "*.Add", "Kit.Add", "Kit.Add_*", "Kit.?dd", "Kit.Add@1", "Kit.Add@1.*",
        "Kit.Add@1.2.*", "Kit.Add@1.2.3", "K*.A@2", "*@1.*", "#math", "#größe", "#a.b-c",
        *(f"@{mark}" for mark in MARKS),
    ],
)  # fmt: skip
def test_what_is_a_pattern_is_taken_as_it_is(given: str) -> None:
    assert tool_pattern(given) == given


@pytest.mark.parametrize(
    "given",
    [
        "", "Kit", "K?t", "Kit.", ".Add", "Kit.Add.More", "Kit.[A]", "K it.*", "Kit.Add@", "Kit.Add@1.2",
        "Kit.Add@1.2.3.4", "Kit.Add@latest", "#", "#a b", "#a\x1b", "@", "@quick", "@read_only.", "*\n",
        "x" * 129 + ".*", 7, None,
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_a_sentence(given: object) -> None:
    with pytest.raises(ValueError, match=r"^Must be a tool's id"):
        tool_pattern(given)


@pytest.mark.parametrize("mark", MARKS)
def test_every_mark_can_be_matched(mark: str) -> None:
    assert matches(f"@{mark}", TOOLS["Look"]) in (True, False)
