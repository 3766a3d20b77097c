"""What a JSON Schema can cost, worked out before anything is compiled.

A schema is *plain* where all that decides its cost can be read off it: its references are pointers into itself
(`#`, `#/$defs/x`), and it has none of the keywords by which a reference means something else elsewhere (`$id`,
`$anchor`, `$dynamicRef`, …) or by which parts are evaluated again (`unevaluatedProperties`). For a plain schema
`steps(depth)` is a bound that holds for every value:

    checking a value takes at most steps(depth of the value) * size(value) steps.

By induction: a part does its own work (`enum`: one comparison each), that of the parts that it applies to the same
value (`allOf`, `$ref`), and that of the parts that it applies to members and items, which are a level less deep and
together no larger than the value. Of `properties` only one applies to each member, so the dearest counts. A schema that
refers to itself costs more the deeper a value is: linear for a tree, doubling at each level where two ways lead back.
Everything here is iterative and stops at its bounds, so that no document, however deep or long, is dear to look at.
"""

from collections.abc import Iterable, Iterator
from typing import Any

MOST_PARTS = 50_000
"""Values, objects and arrays in a schema as it is written."""
MOST_DEPTH = 100
"""Levels in a schema as it is written: everything that walks one recursively can rely on it."""
MOST_LEVELS = 255
"""As deep as jsonschema-rs goes into a value."""
ENDLESS = 10**9
"""What more steps than this count as."""
MOST_STEPS = 1_000_000
"""For each part of a value."""
CHARACTERS = 8
"""How many characters of a text count as one part of a value."""
PATTERN = 512
"""Steps of a regular expression a part: with `size_limit` 64 KiB it takes at most 6.3 us a character (measured)."""
FORMAT = 8
"""Steps of `format` a part: each reads a text once, the slowest in 70 ns a character."""
UNIQUE = 20
"""Steps of `uniqueItems` a part: it is checked in Python."""
MULTIPLE = 500
"""Steps of `multipleOf` a part: a float is divided by another as a fraction of large integers, in up to 30 us."""

_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""What applies to the same value."""
_ONE_EACH = ("properties", "prefixItems")
"""What applies to a member or an item, one to each."""
_EACH = ("items", "additionalItems", "additionalProperties", "propertyNames", "contains", "patternProperties")
"""What applies to members or items."""
_BY_NAME = frozenset(("properties", "patternProperties", "dependentSchemas", "dependencies"))
_COUNTED = ("enum", "const", "required", "type", "dependentRequired", "dependencies")
_ELSEWHERE = frozenset(
    ("$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "$vocabulary")
)
_AGAIN = frozenset(("unevaluatedProperties", "unevaluatedItems"))


class NotPlain(Exception):
    """Raised for a schema whose cost nobody can tell before it is compiled."""


class Outside(NotPlain):
    """Raised for a schema that refers to something outside itself."""


def bounded(schema: Any) -> tuple[int, int]:
    """How many parts a document has, and how many characters of patterns. Raises ValueError for one that is larger or
    deeper than any may be."""
    level, parts, patterns, depth = [schema], 0, 0, 0
    while level:
        parts += len(level)
        if parts > MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS} parts")
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")
        depth += 1
        patterns += sum(map(_pattern_length, level))
        level = [below for part in level for below in _below(part)]
    return parts, patterns


def _below(part: Any) -> Iterable[Any]:
    if isinstance(part, dict):
        return part.values()
    return part if isinstance(part, list | tuple) else ()


def _pattern_length(part: Any) -> int:
    if not isinstance(part, dict):
        return 0
    pattern, properties = part.get("pattern"), part.get("patternProperties")
    named = sum(map(len, properties)) if isinstance(properties, dict) else 0
    return named + (len(pattern) if isinstance(pattern, str) else 0)


class Cost:
    """Of one schema that is within its bounds. Raises NotPlain. Of one that refers to itself, for values of up to
    `levels`."""

    def __init__(self, schema: dict[str, Any], levels: int = MOST_LEVELS) -> None:
        self.patterns, self._most_levels = 0, levels
        _refuse_elsewhere(schema)
        self._schema = schema
        self._parts: list[dict[str, Any]] = []
        self._number: dict[int, int] = {}
        self._own: list[int] = []
        self._same: list[list[int]] = []
        self._each: list[list[int]] = []
        self._one_each: list[list[int]] = []
        self._visit(schema)
        for part in self._parts:  # grows meanwhile
            self._read(part)
        self._order = self._inside_out()
        self._levels = [self._level(None)]
        self._is_final = False

    def steps(self, depth: int) -> int:
        """For each part of a value that is so many levels deep."""
        while len(self._levels) <= depth and not self._is_final:
            if len(self._levels) > self._most_levels:
                return ENDLESS
            level = self._level(self._levels[-1])
            self._is_final = level == self._levels[-1]
            self._levels.append(level)
        return self._levels[min(depth, len(self._levels) - 1)][0]

    def most_levels(self) -> int | None:
        """How deep a value may be, where it costs more at each level. Raises ValueError where not even a flat one can
        be checked."""
        if self.steps(1) > MOST_STEPS:
            raise ValueError(f"it takes more than {MOST_STEPS} steps, counting each part as often as it is referred to")
        if self.steps(self._most_levels) <= MOST_STEPS:
            return None
        return next(depth for depth in range(self._most_levels) if self.steps(depth + 1) > MOST_STEPS)

    def _visit(self, part: dict[str, Any]) -> int:
        number = self._number.setdefault(id(part), len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number

    def _read(self, part: dict[str, Any]) -> None:
        """The edges of a part, and its own work."""
        if _AGAIN & part.keys():
            raise NotPlain
        self._same.append(self._applied(part, _SAME))
        if "$ref" in part and isinstance(referred := self._referred(part["$ref"]), dict):
            self._same[-1].append(self._visit(referred))
        self._each.append(self._applied(part, _EACH))
        self._one_each.append(self._applied(part, _ONE_EACH))
        self._own.append(self._own_work(part))

    def _applied(self, part: dict[str, Any], keywords: Iterable[str]) -> list[int]:
        return [self._visit(each) for keyword in keywords for each in _schemas(keyword, part.get(keyword))]

    def _own_work(self, part: dict[str, Any]) -> int:
        patterns = int("pattern" in part) + len(part.get("patternProperties") or ())
        self.patterns += patterns
        counted = sum(_count(part[keyword]) for keyword in _COUNTED if keyword in part)
        applied = sum(len(part[keyword]) for keyword in _ONE_EACH if isinstance(part.get(keyword), list | dict))
        scanned = PATTERN * patterns + (FORMAT if "format" in part else 0) + (UNIQUE if part.get("uniqueItems") else 0)
        divided = MULTIPLE if "multipleOf" in part else 0
        return 1 + len(part) + counted + applied + scanned + divided

    def _referred(self, reference: Any) -> Any:
        """What a reference within the schema is to, as the validator will find it."""
        if not isinstance(reference, str) or "%" in reference or "$id" in self._schema:
            raise NotPlain
        if reference == "#":
            return self._schema
        if not reference.startswith("#/"):
            raise Outside(reference)
        found: Any = self._schema
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise Outside(reference)
        return found

    def _inside_out(self) -> list[int]:
        """So that whatever a part applies to the same value comes before it. A circle there has no bound."""
        order: list[int] = []
        state = [0] * len(self._parts)
        for first in range(len(self._parts)):
            pending = [first]
            while pending:
                number = pending[-1]
                if state[number] == 0:
                    state[number] = 1
                    for each in self._same[number]:
                        if state[each] == 1:
                            raise NotPlain
                        if state[each] == 0:
                            pending.append(each)
                else:
                    pending.pop()
                    if state[number] == 1:
                        state[number] = 2
                        order.append(number)
        return order

    def _level(self, below: list[int] | None) -> list[int]:
        """The steps of every part for values of one level more than those `below`."""
        steps = [0] * len(self._parts)
        for number in self._order:
            total = self._own[number] + sum(steps[each] for each in self._same[number])
            if below is not None:
                total += sum(below[each] for each in self._each[number])
                total += max((below[each] for each in self._one_each[number]), default=0)
            steps[number] = min(total, ENDLESS)
        return steps


def _refuse_elsewhere(schema: dict[str, Any]) -> None:
    """Keywords by which references mean something else, wherever they stand: also in what is only data."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            for keyword in _ELSEWHERE & part.keys():
                if not isinstance(part[keyword], dict) and not (part is schema and keyword == "$id"):
                    raise NotPlain
            if part is not schema and isinstance(part.get("$schema"), str):
                raise NotPlain
        pending.extend(_below(part))


def _schemas(keyword: str, given: Any) -> Iterator[dict[str, Any]]:
    """Those that a keyword applies: one, a list of them, or one for each name. (True and false cost nothing.)"""
    if keyword in _BY_NAME:
        given = list(given.values()) if isinstance(given, dict) else []
    yield from (each for each in (given if isinstance(given, list) else [given]) if isinstance(each, dict))


def _count(value: Any) -> int:
    pending, seen = [value], 0
    while pending:
        item = pending.pop()
        seen += 1 + (len(item) // CHARACTERS if isinstance(item, str) else 0)
        pending.extend(_below(item))
    return seen


def measured(value: Any, most: int) -> tuple[int, int]:
    """The size of a value, and how many levels it has. Looks at no more than `most`; what is larger is `most + 1`."""
    level, size, depth = [value], 1, 0
    while level:
        for item in level:
            if isinstance(item, str):
                size += len(item) // CHARACTERS
            elif isinstance(item, dict | list | tuple):
                size += len(item)
                if size <= most and isinstance(item, dict):
                    size += sum(map(len, item)) // CHARACTERS
            if size > most:
                return most + 1, depth
        depth += 1
        level = [below for item in level for below in _below(item)]
    return size, depth
