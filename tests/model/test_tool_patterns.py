"""Which tools the patterns of a claim mean, against the same by another matcher."""

from fnmatch import fnmatchcase

from hypothesis import example, given
from hypothesis import strategies as st

from toolyard.model.tool_patterns import offers_named, tries
from toolyard.model.worker import offer_of, reference_of

NAMES = st.text("aB.", min_size=1, max_size=6)
REFERENCES = st.builds(lambda name, version: f"{name}@{version}.0.0", NAMES, st.sampled_from("12"))
PATTERNS = st.text("aB.@1*", min_size=1, max_size=6) | NAMES | NAMES.map(lambda name: name + "*") | REFERENCES


@given(st.frozensets(REFERENCES, max_size=8), st.lists(PATTERNS, max_size=4))
@example(frozenset({"a@1.0.0", "a.B@1.0.0"}), ["a"])
@example(frozenset({"a@1.0.0"}), ["a*a@1.0.0", "**", "*"])
def test_what_is_meant_is_what_a_glob_matches(references: frozenset[str], patterns: list[str]) -> None:
    offers = frozenset(offer_of(each, ("acme", "ada"), b"{}") for each in references)
    expected = [
        offer
        for offer in sorted(offers)
        if not patterns
        or any(
            fnmatchcase(name, pattern)
            for pattern in patterns
            for name in (reference_of(offer), reference_of(offer).partition("@")[0])
        )
    ]
    assert offers_named(offers, tuple(patterns)) == expected


def test_only_what_has_to_be_tried_on_each_name_is_counted() -> None:
    offers = frozenset("abc")
    assert tries(offers, ["a", "a*", "*"]) == 0
    assert tries(offers, ["*a", "a*b", "a*"]) == 6
