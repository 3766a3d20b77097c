"""Does a JSON value look as a row says? Pure: an expected value and an actual one in, a list of problems out.

An expected object may name fewer members than the reply has, unless the match is exact; lists are compared
element by element; numbers by value (15 is 15.0, but never `true`). Strings in angle brackets are matchers:
`<any> <string> <number> <bool> <object> <list> <url> <absent> <re:...>` (matching the whole string).
An object whose only member is in angle brackets says something about a collection:
`<contains>`: each of these stands somewhere in the list; `<lacks>`: none of them does;
`<each>`: the list is not empty and every element looks like this; `<members>`: the object has no others.
`duration` is the one member that exact matches do not ask about: it is optional, and never the same twice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

Problems = list[str]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_url(value: object) -> bool:
    if not isinstance(value, str):
        return False
    parts = urlsplit(value)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


KINDS: dict[str, Callable[[object], bool]] = {
    "<any>": lambda value: True,
    "<string>": lambda value: isinstance(value, str),
    "<number>": is_number,
    "<bool>": lambda value: isinstance(value, bool),
    "<object>": lambda value: isinstance(value, dict),
    "<list>": lambda value: isinstance(value, list),
    "<url>": is_url,
}
COLLECTIONS = ("<contains>", "<lacks>", "<each>", "<members>")


def mismatches(expected: Any, actual: Any, *, exact: bool = False, at: str = "$") -> Problems:
    """Everything that is wrong with `actual`, each with the path where it is wrong."""
    if isinstance(expected, str):
        return text_mismatches(expected, actual, at)
    if isinstance(expected, Mapping):
        word = next(iter(expected)) if len(expected) == 1 else None
        if word in COLLECTIONS:
            return collection_mismatches(str(word), expected[word], actual, exact, at)
        return object_mismatches(expected, actual, exact, at)
    if isinstance(expected, list):
        return list_mismatches(expected, actual, exact, at)
    return [] if same_scalar(expected, actual) else [f"{at}: expected {expected!r}, got {actual!r}"]


def same_scalar(expected: object, actual: object) -> bool:
    if is_number(expected):
        return is_number(actual) and expected == actual
    return type(expected) is type(actual) and expected == actual


def text_mismatches(expected: str, actual: Any, at: str) -> Problems:
    problem = [f"{at}: expected {expected!r}, got {actual!r}"]
    if not (expected.startswith("<") and expected.endswith(">")):
        return [] if isinstance(actual, str) and actual == expected else problem
    if expected.startswith("<re:"):
        matched = isinstance(actual, str) and re.fullmatch(expected[4:-1], actual, re.DOTALL)
        return [] if matched else problem
    if expected == "<absent>":
        return [f"{at}: should not be there, got {actual!r}"]
    if expected not in KINDS:
        raise ValueError(f"{at}: there is no matcher {expected!r}")
    return [] if KINDS[expected](actual) else problem


def object_mismatches(expected: Mapping[str, Any], actual: Any, exact: bool, at: str) -> Problems:
    if not isinstance(actual, dict):
        return [f"{at}: expected an object, got {actual!r}"]
    problems: Problems = []
    for name, value in expected.items():
        if name in actual:
            problems += mismatches(value, actual[name], exact=exact, at=f"{at}.{name}")
        elif value != "<absent>":
            problems.append(f"{at}.{name}: missing")
    if exact:
        problems += extra_members(actual, {*expected, "duration"}, at)
    return problems


def extra_members(actual: Mapping[str, Any], allowed: set[str], at: str) -> Problems:
    return [f"{at}.{name}: not expected at all, got {actual[name]!r}" for name in actual if name not in allowed]


def list_mismatches(expected: Sequence[Any], actual: Any, exact: bool, at: str) -> Problems:
    if not isinstance(actual, list):
        return [f"{at}: expected a list, got {actual!r}"]
    if len(actual) != len(expected):
        return [f"{at}: expected {len(expected)} elements, got {actual!r}"]
    pairs = enumerate(zip(expected, actual, strict=True))
    return [p for i, (want, got) in pairs for p in mismatches(want, got, exact=exact, at=f"{at}[{i}]")]


def collection_mismatches(word: str, wanted: Any, actual: Any, exact: bool, at: str) -> Problems:
    if word == "<members>":
        if not isinstance(actual, dict):
            return [f"{at}: expected an object, got {actual!r}"]
        return extra_members(actual, set(wanted), at)
    if not isinstance(actual, list):
        return [f"{at}: expected a list, got {actual!r}"]
    if word == "<each>":
        if not actual:
            return [f"{at}: expected at least one element"]
        return [p for i, got in enumerate(actual) for p in mismatches(wanted, got, exact=exact, at=f"{at}[{i}]")]
    return [p for want in wanted for p in membership_mismatches(word, want, actual, exact, at)]


def membership_mismatches(word: str, want: Any, actual: Sequence[Any], exact: bool, at: str) -> Problems:
    tries = [mismatches(want, got, exact=exact, at=f"{at}[{i}]") for i, got in enumerate(actual)]
    found = any(not problems for problems in tries)
    if word == "<lacks>":
        return [f"{at}: should hold nothing like {want!r}"] if found else []
    if found:
        return []
    nearest = min(tries, key=len, default=["the list is empty"])
    return [f"{at}: holds nothing like {want!r}; nearest: {nearest}"]


STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\*)\]")


def select(document: Any, path: str) -> list[Any]:
    """The values at `a.b[0].c` or `items[*].id`; empty when there is nothing."""
    found = [document]
    for name, index in STEP.findall(path):
        if name:
            found = [value[name] for value in found if isinstance(value, dict) and name in value]
        elif index == "*":
            found = [element for value in found if isinstance(value, list) for element in value]
        else:
            place = int(index)
            found = [value[place] for value in found if isinstance(value, list) and len(value) > place]
    return found
