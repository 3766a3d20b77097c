"""Bounds of what a schema costs, held against what jsonschema-rs does with it."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.runners.schema_cost import ENDLESS, MOST_DEPTH, MOST_PARTS, MULTIPLE, Cost, NotPlain, bounded, measured
from toolyard.runners.validation import checked

TREE = {"type": "array", "items": {"$ref": "#"}}
TWO_WAYS = {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}


def test_a_tree_costs_more_the_deeper_it_is_and_two_ways_back_cost_double() -> None:
    tree, two_ways = Cost(TREE), Cost(TWO_WAYS)
    assert tree.steps(20) < 21 * tree.steps(1)
    assert two_ways.steps(20) > 2**19
    assert two_ways.steps(200) == ENDLESS


def test_parts_count_as_often_as_they_are_referred_to() -> None:
    defs: dict[str, Any] = {"s0": {"type": "string"}}
    for step in range(1, 20):
        defs[f"s{step}"] = {"allOf": [{"$ref": f"#/$defs/s{step - 1}"}, {"$ref": f"#/$defs/s{step - 1}"}]}
    assert Cost({"$ref": "#/$defs/s19", "$defs": defs}).steps(1) > 2**19
    assert Cost({"type": "string", "$defs": defs}).steps(1) < 10


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
        {"$ref": "#/%24defs/a", "$defs": {"a": {}}},
        {"$ref": "https://a.example/a", "$defs": {"a": {"$id": "https://a.example/a"}}},
        {"$id": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}},
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
        {"unevaluatedProperties": False},
        {"items": {"unevaluatedItems": False}},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/none"},
    ],
)
def test_nothing_is_said_of_what_only_the_validator_can_follow(schema: dict[str, Any]) -> None:
    with pytest.raises(NotPlain):
        Cost(schema)


def test_a_property_may_be_named_like_a_keyword() -> None:
    schema = {"$id": "https://a.example/", "properties": {"$id": {"type": "string"}, "unevaluatedItems": {}}}
    assert Cost(schema).steps(1) < 20


def test_dividing_counts_for_what_it_costs() -> None:
    assert Cost({"properties": {"x": {"items": {"multipleOf": 1e-300}}}}).steps(3) > MULTIPLE


def test_a_document_has_bounds_however_deep_it_is() -> None:
    schema: Any = {}
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(ValueError, match=f"more than {MOST_DEPTH} levels"):
        bounded(schema)
    with pytest.raises(ValueError, match=f"more than {MOST_PARTS} parts"):
        bounded({"enum": [0] * MOST_PARTS})
    while isinstance(schema, dict) and schema:  # Python itself would recurse where it lets go of it
        schema = schema.pop("not")


def test_a_chain_of_references_is_followed_to_its_end() -> None:
    defs: dict[str, Any] = {f"s{step}": {"$ref": f"#/$defs/s{step + 1}"} for step in range(10_000)}
    assert Cost({"$ref": "#/$defs/s0", "$defs": {**defs, "s10000": {}}}).steps(1) < 30_000


def test_a_value_is_measured_no_further_than_need_be() -> None:
    assert measured({"a": [1, "x" * 80]}, 1000) == (14, 3)
    assert measured([0] * 10_000, 1000) == (1001, 0)


# --- against the validator -------------------------------------------------------------------------

leaves = st.sampled_from([{"type": "string"}, {"enum": [1, "a", {}]}, {"minLength": 2}, {}, {"$ref": "#"}])
schemas = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.lists(below, min_size=1, max_size=3).flatmap(
            lambda parts: st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"]).map(lambda word: {word: parts})
        ),
        below.flatmap(lambda part: st.sampled_from(["items", "not", "contains"]).map(lambda word: {word: part})),
        below.map(lambda part: {"properties": {"a": part, "b": part}, "additionalProperties": part}),
    ),
    max_leaves=12,
)
values = st.recursive(
    st.sampled_from([0, "a", "abc"]),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.sampled_from("abc"), below, max_size=3)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(schemas, values)
def test_no_value_takes_more_steps_than_was_said(schema: dict[str, Any], value: Any) -> None:
    """Each evaluation of a part is counted by a keyword of its own."""
    try:
        cost = Cost(schema)
    except NotPlain:
        return
    seen = 0

    class Counting:
        def __init__(self, parent: Any, wanted: Any, path: Any) -> None:
            pass

        def validate(self, value: Any) -> None:
            nonlocal seen
            seen += 1

    counted = json.loads(json.dumps(schema), object_hook=_counted)
    jsonschema_rs.Draft202012Validator(counted, keywords={"x-count": Counting}).is_valid(value)
    size, depth = measured(value, 10**6)
    assert seen <= cost.steps(depth) * size


def _counted(part: dict[str, Any]) -> dict[str, Any]:
    """Every object that is a schema, and none that holds some by name."""
    return part if "a" in part else {**part, "x-count": True}


def test_a_client_checks_what_it_can_and_believes_the_rest() -> None:
    assert [each.message for each in checked({"type": "integer"}).iter_errors("x")] == ['"x" is not of type "integer"']
    assert list(checked({"type": "integer"}).iter_errors(1)) == []
    assert [each.instance_path for each in checked({"type": "integer"}).iter_errors("x" * 100_000)] == [()]
    deep: Any = []
    for _ in range(60):
        deep = [deep]
    assert list(checked({**TWO_WAYS, "minItems": 1}).iter_errors(deep)) == []
    assert list(checked({"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "null"}}}).iter_errors(1)) == []
    with pytest.raises(ValueError, match="nonsense"):
        checked({"type": "nonsense"})
