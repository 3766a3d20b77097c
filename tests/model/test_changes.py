"""What changed in a tool, and what that means for those who use it."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.model.lock.changes import LockChange, changes

BASE: dict[str, Any] = {
    "wire_name": "Kit_Tool",
    "description": "Does it.",
    "input_schema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What."},
            "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
            "kind": {"enum": ["a", "b"], "type": "string"},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    "output_schema": {
        "type": "object",
        "properties": {"done": {"type": "boolean"}, "how": {"type": "string", "enum": ["well", "badly"]}},
        "required": ["done"],
    },
    "requirements": {"authorization": {"google": ["mail"]}, "secrets": ["KEY"]},
    "hints": {"read_only": True, "destructive": False},
    "tags": ["one"],
}


def edited(path: str, value: Any, base: Any = BASE) -> Any:
    """The definition with one member set, or with None removed."""
    name, _, rest = path.partition("/")
    made = dict(base)
    if rest:
        made[name] = edited(rest, value, base.get(name, {}))
    elif value is None:
        made.pop(name, None)
    else:
        made[name] = value
    return made


def told(path: str, value: Any) -> list[str]:
    return [f"{each.kind} {each.where}: {each.sentence}" for each in changes(BASE, edited(path, value))]


IN, OUT = "input_schema/properties", "output_schema/properties"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("wire_name", "other", 'breaking wire_name: was "Kit_Tool" and is "other"'),
        ("returns_content", True, "breaking returns_content: was added: true"),
        ("task", "required", "breaking task: was optional and is required"),
        ("asks", ["form"], "breaking asks: form was added"),
        ("tags", [], "breaking tags: one was removed"),
        ("hints/read_only", None, "breaking hints.read_only: the promise was taken back"),
        ("hints/destructive", True, "breaking hints.destructive: the promise was taken back"),
        ("requirements/secrets", ["KEY", "MORE"], "breaking requirements.secrets: MORE was added"),
        ("requirements/user_id", True, "breaking requirements.user_id: is needed now"),
        ("requirements/authorization/github", [], "breaking requirements.authorization: github was added"),
        (
            "requirements/authorization/google",
            ["mail", "drive"],
            "breaking requirements.authorization.google: drive was added",
        ),
        ("output_schema/type", None, "breaking output_schema: the type was object and is anything"),
        (f"{IN}/text", None, "breaking input_schema.properties.text: the parameter was removed"),
        (f"{IN}/text/type", "integer", "breaking input_schema.properties.text: the type was string and is integer"),
        (f"{IN}/count/default", 2, "breaking input_schema.properties.count.default: was 1 and is 2"),
        (f"{IN}/count/minimum", 2, "breaking input_schema.properties.count.minimum: was 1 and is 2"),
        (f"{IN}/count/maximum", 9, "breaking input_schema.properties.count.maximum: was 10 and is 9"),
        (f"{IN}/text/pattern", "x", 'breaking input_schema.properties.text.pattern: was added: "x"'),
        (f"{IN}/text/maxLength", 5, "breaking input_schema.properties.text.maxLength: was added: 5"),
        (f"{IN}/kind/enum", ["a"], 'breaking input_schema.properties.kind: a value is gone: "b"'),
        (f"{IN}/kind/x-non-inferrable", 1, "breaking input_schema.properties.kind.x-non-inferrable: was added: 1"),
        (
            f"{IN}/maybe",
            {"type": "string"},
            'breaking input_schema.properties.maybe: an option is gone: {"type":"null"}',
        ),
        (
            f"{IN}/list/items/properties/x/type",
            "integer",
            "breaking input_schema.properties.list.items.properties.x: the type was number and is integer",
        ),
        ("input_schema/required", ["text", "kind"], "breaking input_schema.properties.kind: is required now"),
        ("input_schema/$ref", "#/x", 'breaking input_schema.$ref: was added: "#/x"'),
        ("output_schema/patternProperties", {"x": {}}, 'breaking output_schema.patternProperties: was added: {"x":{}}'),
        (f"{OUT}/done", None, "breaking output_schema.properties.done: the member was removed"),
        (f"{OUT}/how/enum", ["well", "badly", "so"], 'breaking output_schema.properties.how: a value was added: "so"'),
        ("output_schema/required", None, "breaking output_schema.properties.done: is not required any more"),
        ("task", "preferred", "additive task: was optional and is preferred"),
        ("tags", ["one", "two"], "additive tags: two was added"),
        ("hints/idempotent", True, "additive hints.idempotent: is promised now"),
        ("requirements/secrets", [], "additive requirements.secrets: KEY was removed"),
        ("annotations", {"audience": ["user"]}, 'additive annotations.audience: was added: ["user"]'),
        (f"{IN}/more", {"type": "string"}, "additive input_schema.properties.more: an optional parameter was added"),
        (f"{IN}/count/type", "number", "additive input_schema.properties.count: the type was integer and is number"),
        (f"{IN}/count/minimum", 0, "additive input_schema.properties.count.minimum: was 1 and is 0"),
        (f"{IN}/count/maximum", None, "additive input_schema.properties.count.maximum: was removed: 10"),
        (f"{IN}/kind/enum", ["a", "b", "c"], 'additive input_schema.properties.kind: a value was added: "c"'),
        (f"{IN}/text/default", "x", 'additive input_schema.properties.text.default: was added: "x"'),
        (
            f"{IN}/text",
            {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "What."},
            'additive input_schema.properties.text: an option was added: {"type":"null"}',
        ),
        ("input_schema/required", None, "additive input_schema.properties.text: is not required any more"),
        (
            "input_schema/additionalProperties",
            None,
            "additive input_schema.additionalProperties: something may stand here now",
        ),
        (f"{OUT}/more", {"type": "string"}, "additive output_schema.properties.more: an optional member was added"),
        (f"{OUT}/how/enum", ["well"], 'additive output_schema.properties.how: a value is gone: "badly"'),
        ("description", "Does that.", 'wording description: was "Does it." and is "Does that."'),
        ("title", "A tool", 'wording title: was added: "A tool"'),
        ("toolkit_description", "Kit.", 'wording toolkit_description: was added: "Kit."'),
        ("annotations", {"title": "A tool"}, 'wording annotations.title: was added: "A tool"'),
        (f"{IN}/text/description", None, 'wording input_schema.properties.text.description: was removed: "What."'),
        (f"{IN}/text/examples", ["x"], 'wording input_schema.properties.text.examples: was added: ["x"]'),
        (f"{IN}/kind/enum", ["b", "a"], "wording input_schema.properties.kind: the values stand in another order"),
        (f"{OUT}/done/default", True, "wording output_schema.properties.done.default: was added: true"),
    ],
)  # fmt: skip
def test_a_change_is_told_and_judged(path: str, value: Any, said: str) -> None:
    assert told(path, value) == [said]


def test_a_required_parameter_that_is_new_is_told_once() -> None:
    new = edited(f"{IN}/more", {"type": "string"}, edited("input_schema/required", ["text", "more"]))
    assert [(each.kind, each.sentence) for each in changes(BASE, new)] == [
        ("breaking", "a required parameter was added")
    ]


@pytest.mark.parametrize(("old", "new", "kind"), [({}, None, "breaking"), (None, {}, "additive")])
def test_a_result_that_comes_or_goes(old: Any, new: Any, kind: str) -> None:
    before, after = BASE | {"output_schema": old}, BASE | {"output_schema": new}
    assert [each.kind for each in changes(before, after)] == [kind]


def test_what_is_breaking_is_told_first() -> None:
    new = edited("description", "x", edited("tags", ["one", "two"], edited("wire_name", "x")))
    assert [each.kind for each in changes(BASE, new)] == ["breaking", "additive", "wording"]


def test_of_a_long_text_the_part_is_shown_where_it_differs() -> None:
    old, new = "a" * 500 + "old", "a" * 500 + "new"
    (change,) = changes(BASE | {"description": old}, BASE | {"description": new})
    assert change.sentence == f'was …"{"a" * 30}old" and is …"{"a" * 30}new"'


def test_what_is_shown_hides_nothing() -> None:
    (change,) = changes(BASE | {"title": "\u202e"}, BASE | {"title": "x"})
    assert change == LockChange("wording", "title", 'was "\\u202e" and is "x"')


# -- for any schema ---------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "a", "bb", "ccc"]))
LEAVES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", ["string", "null"]]),
        "minimum": st.integers(-2, 2),
        "maximum": st.integers(-2, 2),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "enum": st.lists(VALUES, min_size=1, max_size=3, unique_by=repr),
        "description": st.sampled_from(["x", "y"]),
    },
)
NESTED = st.one_of(
    LEAVES,
    st.fixed_dictionaries({"anyOf": st.lists(LEAVES, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"type": st.just("array"), "items": LEAVES}, optional={"maxItems": st.integers(0, 2)}),
)
NAMES = ("a", "b", "c")
OBJECTS = st.builds(
    lambda properties, required: {
        "type": "object",
        "properties": properties,
        "required": [name for name in required if name in properties],
        "additionalProperties": False,
    },
    st.dictionaries(st.sampled_from(NAMES), NESTED, max_size=3),
    st.lists(st.sampled_from(NAMES), unique=True),
)
INSTANCES = st.dictionaries(st.sampled_from(NAMES), st.one_of(VALUES, st.lists(VALUES, max_size=3)))


def definition(input: Any = None, output: Any = None) -> dict[str, Any]:
    return {"wire_name": "x", "description": "", "input_schema": input or {}, "output_schema": output}


@st.composite
def alike(draw: st.DrawFn, schemas: st.SearchStrategy[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two schemas, of which one was made from the other: else few would have anything to do with each other."""
    old, other = draw(schemas), draw(schemas)
    chosen = {keyword: draw(st.sampled_from((old, old, other))) for keyword in sorted(old.keys() | other.keys())}
    return old, {keyword: source[keyword] for keyword, source in chosen.items() if keyword in source}


RESULTS = st.one_of(VALUES, st.lists(VALUES, max_size=3))


@settings(max_examples=400, deadline=None)
@given(alike(OBJECTS), INSTANCES)
def test_what_is_not_called_breaking_breaks_no_call(pair: Any, input: Any) -> None:
    old, new = pair
    found = changes(definition(old), definition(new))
    assert bool(found) == (old != new)
    if all(change.kind != "breaking" for change in found) and jsonschema_rs.is_valid(old, input):
        assert jsonschema_rs.is_valid(new, input), found


@settings(max_examples=400, deadline=None)
@given(alike(NESTED), RESULTS)
def test_a_parameter_that_is_not_called_breaking_takes_what_it_took(pair: Any, value: Any) -> None:
    old, new = pair
    found = changes(definition(old), definition(new))
    assert bool(found) == (old != new)
    if all(change.kind != "breaking" for change in found) and jsonschema_rs.is_valid(old, value):
        assert jsonschema_rs.is_valid(new, value), found


@settings(max_examples=400, deadline=None)
@given(alike(NESTED), RESULTS)
def test_what_is_not_called_breaking_promises_no_less_of_a_result(pair: Any, result: Any) -> None:
    old, new = pair
    found = changes(definition(output=old), definition(output=new))
    assert bool(found) == (old != new)
    if all(change.kind != "breaking" for change in found) and jsonschema_rs.is_valid(new, result):
        assert jsonschema_rs.is_valid(old, result), found
