"""The changes between two JSON Schemas, keyword by keyword: does the new one accept less, more, or the same?

A schema that accepts less breaks callers where it is about input, and nobody where it is about output; one that accepts
more, the other way round. `changes` translates the effects found here for the side in question. Whether one schema
implies another cannot be decided in general: what no rule here can judge is `unclear`, which counts as breaking.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...text.hidden import escaped_json

Side = Literal["input", "output"]
Effect = Literal["narrower", "wider", "unclear", "breaking", "additive", "wording"]
Found = tuple[str, Effect, str]
"""The path of a change, its effect, and a sentence."""

ALL_TYPES = frozenset({"null", "boolean", "object", "array", "string", "number", "integer"})
_encode = msgspec.json.Encoder(order="sorted").encode
_LOWEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_HIGHEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_BELOW = ("items", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
_PLAIN = (
    "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema", "multipleOf", "not", "contains",
    "dependentRequired", "dependentSchemas", "dependencies",
)  # fmt: skip
"""Keywords that only restrict: with one of them a schema accepts less than without it. How two different values of one
compare is unclear."""
_UNCLEAR = (
    "$ref", "$schema", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "if", "then", "else",
    "minContains", "maxContains", "patternProperties", "prefixItems", "additionalItems",
)  # fmt: skip
"""Keywords whose effect depends on others, or on schemas elsewhere."""
_NAMED = ("$defs", "definitions")
_HIDDEN = "x-non-inferrable"


class Pair(Struct, frozen=True):
    """One schema before and after a change, with its path in the definition and the side it describes."""

    path: str
    side: Side
    old: Mapping[str, Any]
    new: Mapping[str, Any]

    def at(self, name: str, old: Any, new: Any) -> "Pair":
        return Pair(f"{self.path}.{name}", self.side, old, new)


def schema_changes(pair: Pair) -> Iterator[Found]:
    """All changes between the two schemas, from the top down."""
    old, new = _bare(pair.old), _bare(pair.new)
    # A schema that became optional, from T to anyOf [T, null], is compared as a choice of one with a choice of two:
    # by keywords alone it would have lost everything and gained an anyOf.
    if _is_choice(old) or _is_choice(new):
        yield from _options(pair, "anyOf", *(each["anyOf"] if _is_choice(each) else [each] for each in (old, new)))
    else:
        for rule in _RULES:
            yield from rule(Pair(pair.path, pair.side, old, new))
    yield from _notes(pair)


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a schema that decide which values fit; descriptions and the like are left out."""
    return {keyword: value for keyword, value in schema.items() if keyword in _KEYWORDS}


def _is_choice(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is `anyOf` and nothing else, as that of `str | None` is."""
    return len(schema) == 1 and isinstance(schema.get("anyOf"), list)


def _whole(pair: Pair, old: Any, new: Any) -> Iterator[Found]:
    """The change between two schemas of which at least one is just `true` or `false`."""
    if old == new:
        return
    if old is False or new is True:
        yield pair.path, "wider", "anything may stand here" if new is True else "something may stand here now"
    elif new is False or old is True:
        yield pair.path, "narrower", "nothing may stand here now" if new is False else "not anything may stand here now"
    else:
        yield pair.path, "unclear", "is another kind of schema"


def _types(pair: Pair) -> Iterator[Found]:
    old, new = _types_of(pair.old), _types_of(pair.new)
    if old != new:
        effect: Effect = "narrower" if new < old else "wider" if new > old else "unclear"
        yield pair.path, effect, f"the type was {_named(old)} and is {_named(new)}"


def _types_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types of the values that a schema accepts: declared, or else those of its fixed values, or else all."""
    values = schema.get("enum") if "const" not in schema else [schema["const"]]
    given = schema.get("type") or (ALL_TYPES if values is None else [_type_of(value) for value in values])
    types = frozenset({given} if isinstance(given, str) else map(str, given))
    # JSON Schema's "number" includes whole ones, so from integer to number accepts more, and is not another type.
    return types | {"integer"} if "number" in types else types


def _type_of(value: Any) -> str:
    return next(name for name, kind in _PYTHON_TYPES.items() if isinstance(value, kind))


# The boolean stands before the integer: in Python a bool is an int.
_PYTHON_TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": float,
    "string": str,
    "array": list,
    "object": Mapping,
}


def _named(types: frozenset[str]) -> str:
    shown = types - {"integer"} if "number" in types else types
    return "anything" if types >= ALL_TYPES else " or ".join(sorted(shown)) or "nothing"


def _values(pair: Pair) -> Iterator[Found]:
    old, new = _values_of(pair.old), _values_of(pair.new)
    if old is None or new is None:
        if new is not None:
            yield pair.path, "narrower", f"only these values are left: {_list(new)}"
        elif old is not None:
            yield pair.path, "wider", f"other values are possible than {_list(old)}"
        return
    before, after = set(old), set(new)  # a schema may list tens of thousands of values
    if gone := [value for value in old if value not in after]:
        yield pair.path, "narrower", f"a value is gone: {_list(gone)}"
    if more := [value for value in new if value not in before]:
        yield pair.path, "wider", f"a value was added: {_list(more)}"
    if not gone and not more and old != new:
        yield pair.path, "wording", "the values stand in another order"


def _values_of(schema: Mapping[str, Any]) -> list[bytes] | None:
    if "const" in schema:
        return [_encode(schema["const"])]
    given = schema.get("enum")
    return [_encode(value) for value in given] if isinstance(given, list) else None


def _list(values: list[bytes]) -> str:
    return ", ".join(value.decode() for value in values)


def _properties(pair: Pair) -> Iterator[Found]:
    old, new = _object(pair.old, "properties"), _object(pair.new, "properties")
    required = _names(pair.new)
    what = "parameter" if pair.side == "input" else "member"
    for name in sorted(new.keys() - old.keys()):
        is_required = name in required
        effect: Effect = "breaking" if is_required and pair.side == "input" else "additive"
        kind = f"{'required' if is_required else 'optional'} {what}"
        yield f"{pair.path}.properties.{name}", effect, f"{'a' if is_required else 'an'} {kind} was added"
    for name in sorted(old.keys() - new.keys()):
        yield f"{pair.path}.properties.{name}", "breaking", f"the {what} was removed"
    for name in sorted(old.keys() & new.keys()):
        yield from _either(pair.at(f"properties.{name}", old[name], new[name]))


def _required(pair: Pair) -> Iterator[Found]:
    old, new = _names(pair.old), _names(pair.new)
    before, after = _object(pair.old, "properties").keys(), _object(pair.new, "properties").keys()
    at = f"{pair.path}.properties."
    # A property that was added or removed is reported by `_properties` already, with whether it is required.
    for name in sorted(set(new) - set(old)):
        if name in before or name not in after:
            yield f"{at}{name}", "narrower", "is required now"
    for name in sorted(set(old) - set(new)):
        if name in after or name not in before:
            yield f"{at}{name}", "wider", "is not required any more"
    if old != new and set(old) == set(new):
        yield f"{pair.path}.required", "wording", "stands in another order"


def _names(schema: Mapping[str, Any]) -> list[Any]:
    given = schema.get("required", [])
    return given if isinstance(given, list) else []


def _bounds(pair: Pair) -> Iterator[Found]:
    for keyword in (*_LOWEST, *_HIGHEST):
        old, new = pair.old.get(keyword), pair.new.get(keyword)
        if old == new:
            continue
        if old is None or new is None:
            effect: Effect = "narrower" if old is None else "wider"
        elif not (isinstance(old, int | float) and isinstance(new, int | float)):
            effect = "unclear"
        else:
            effect = "narrower" if (new > old) == (keyword in _LOWEST) else "wider"
        yield f"{pair.path}.{keyword}", effect, _was_and_is(old, new)


def _unique(pair: Pair) -> Iterator[Found]:
    old, new = pair.old.get("uniqueItems", False), pair.new.get("uniqueItems", False)
    if old != new:
        yield f"{pair.path}.uniqueItems", "narrower" if new else "wider", _was_and_is(old, new)


def _plain(pair: Pair) -> Iterator[Found]:
    for keyword in _PLAIN:
        old, new = pair.old.get(keyword), pair.new.get(keyword)
        if old != new:
            effect: Effect = "narrower" if old is None else "wider" if new is None else "unclear"
            yield f"{pair.path}.{keyword}", effect, _was_and_is(old, new)


def _references(pair: Pair) -> Iterator[Found]:
    for keyword in _UNCLEAR:
        if pair.old.get(keyword) != pair.new.get(keyword):
            yield f"{pair.path}.{keyword}", "unclear", _was_and_is(pair.old.get(keyword), pair.new.get(keyword))
    for keyword in _NAMED:
        old, new = _object(pair.old, keyword), _object(pair.new, keyword)
        for name in sorted(old.keys() ^ new.keys()):
            yield f"{pair.path}.{keyword}.{name}", "wording", "was added" if name in new else "was removed"
        for name in sorted(old.keys() & new.keys()):
            yield from _either(pair.at(f"{keyword}.{name}", old[name], new[name]))


def _below(pair: Pair) -> Iterator[Found]:
    for keyword in _BELOW:
        # Where the keyword is absent anything is accepted, as with `true` and with the empty schema.
        old, new = pair.old.get(keyword, True), pair.new.get(keyword, True)
        yield from _either(pair.at(keyword, {} if old is True else old, {} if new is True else new))


def _combined(pair: Pair) -> Iterator[Found]:
    for keyword in ("anyOf", "oneOf"):
        old, new = pair.old.get(keyword), pair.new.get(keyword)
        if isinstance(old, list) and isinstance(new, list):
            yield from _options(pair, keyword, old, new)
        elif old != new:
            effect: Effect = "narrower" if old is None else "wider" if new is None else "unclear"
            yield f"{pair.path}.{keyword}", effect, _was_and_is(old, new)
    yield from _parts(pair, pair.old.get("allOf", []), pair.new.get("allOf", []))


def _parts(pair: Pair, old: Any, new: Any) -> Iterator[Found]:
    """The changes of an `allOf`: of several schemas all must fit."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _either(pair.at(f"allOf[{index}]", before, after))
    elif old != new:
        yield f"{pair.path}.allOf", "narrower" if not old else "wider" if not new else "unclear", "has other parts"


def _options(pair: Pair, keyword: str, old: list[Any], new: list[Any]) -> Iterator[Found]:
    """The changes of an `anyOf` or `oneOf`: of several schemas one must fit. (With `oneOf`, exactly one: there, an
    added option may exclude values that fitted before.)"""
    before, after = set(map(_encode, old)), set(map(_encode, new))
    gone = [(index, option) for index, option in enumerate(old) if _encode(option) not in after]
    more = [(index, option) for index, option in enumerate(new) if _encode(option) not in before]
    # As many went as came: each is taken for a changed option, which tells more than one that is gone and another new.
    if len(gone) == len(more):
        for (_, before), (index, after) in zip(gone, more, strict=True):
            yield from _either(pair.at(f"{keyword}[{index}]", before, after))
        if not gone and old != new:
            yield f"{pair.path}.{keyword}", "wording", "the options stand in another order"
        return
    for effect, options, word in (("narrower", gone, "is gone"), ("wider", more, "was added")):
        for _, option in options:
            judged: Any = effect if keyword == "anyOf" else "unclear"
            yield pair.path, judged, f"an option {word}: {_short(option)}"


def _either(pair: Pair) -> Iterator[Found]:
    """The changes between two schemas, either of which may be a boolean."""
    if pair.old == pair.new:
        return
    if isinstance(pair.old, Mapping) and isinstance(pair.new, Mapping):
        yield from schema_changes(pair)
    else:
        yield from _whole(pair, pair.old, pair.new)


def _notes(pair: Pair) -> Iterator[Found]:
    """The changes of keywords that do not decide what fits: descriptions, defaults, marks."""
    old, new = pair.old, pair.new
    for keyword in sorted(old.keys() | new.keys()):
        if keyword in _KEYWORDS or (keyword in old and keyword in new and old[keyword] == new[keyword]):
            continue
        effect: Effect = "wording"
        # Calls that leave a parameter out rely on its default; one that a model may not fill in cannot be sent by it.
        if keyword == "default" and pair.side == "input":
            effect = "additive" if keyword not in old else "breaking"
        elif keyword == _HIDDEN:
            effect = "breaking" if new.get(keyword) else "additive"
        yield f"{pair.path}.{keyword}", effect, member_changed(old, new, keyword)


def _object(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    given = schema.get(keyword)
    return given if isinstance(given, Mapping) else {}


def member_changed(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> str:
    """A sentence about a member that was added, removed or changed. Of long texts it quotes the part where they begin
    to differ."""
    if name not in old or name not in new:
        return f"was added: {_short(new[name])}" if name in new else f"was removed: {_short(old[name])}"
    before, after = old[name], new[name]
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > LONGEST:
        shorter = min(len(before), len(after))
        parting = next((index for index in range(shorter) if before[index] != after[index]), shorter)
        start = max(0, parting - AROUND)
        lead = "…" if start else ""
        return f"was {lead}{_short(before[start:])} and is {lead}{_short(after[start:])}"
    return f"was {_short(before)} and is {_short(after)}"


LONGEST, AROUND = 160, 30


def _was_and_is(old: Any, new: Any) -> str:
    if old is None or new is None:
        return f"was added: {_short(new)}" if old is None else f"was removed: {_short(old)}"
    return f"was {_short(old)} and is {_short(new)}"


def _short(value: Any) -> str:
    text = escaped_json(msgspec.json.encode(value).decode())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


Rule = Callable[[Pair], Iterator[Found]]
_RULES: tuple[Rule, ...] = (
    _types, _values, _properties, _required, _bounds, _unique, _plain, _below, _combined, _references,
)  # fmt: skip
_KEYWORDS = frozenset(
    (
        "type", "enum", "const", "properties", "required", "uniqueItems", "anyOf", "oneOf", "allOf",
        *_LOWEST, *_HIGHEST, *_PLAIN, *_BELOW, *_UNCLEAR, *_NAMED,
    )
)  # fmt: skip
