"""How callers are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.model.caller import caller_name, full_name, is_named

PARTS = st.text("ad/%25F ", min_size=1, max_size=6)


def test_a_callers_name_has_its_tenant_where_that_is_not_the_usual_one() -> None:
    assert caller_name("default", "ada") == "ada"
    assert caller_name("other", "ada") == "other/ada"


@pytest.mark.parametrize("named", [caller_name, full_name])
@given(one=st.tuples(PARTS, PARTS), other=st.tuples(PARTS, PARTS))
def test_no_two_callers_have_one_name(named: object, one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (named(*one) == named(*other)) == (one == other)  # type: ignore[operator]


@given(one=st.tuples(PARTS, PARTS), other=st.tuples(PARTS, PARTS))
def test_a_full_name_is_one_callers(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert is_named(*one, full_name(*one))
    assert is_named(*one, caller_name(*one))
    assert is_named(*one, full_name(*other)) == (one == other)
