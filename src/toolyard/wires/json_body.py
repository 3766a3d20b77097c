"""Reads a JSON body member by member, for wires whose errors name every wrong member at once.

A body that is not JSON is malformed. One that is JSON, but not what was asked for, is invalid: all problems are
collected by path, and `done` raises them together. Until then, a member that was wrong is read as None, so decoders
must not look into what they have read before `done`.
"""

import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from ..model.definition_text import unseen_in
from ..model.errors import InvalidInput, MalformedRequest, Problem, path_of
from ..model.json_value import decode, decode_infinite
from ..text.hidden import escaped

T = TypeVar("T")
D = TypeVar("D")
Check = Callable[[Any], T]
"""Returns the value if it is of the right kind. Raises ValueError with a sentence that says what it must be."""

MOST_PROBLEMS = 20


class Members:
    """The members of one JSON object, with the problems found in it. Members that no decoder has read are unknown, and
    so a problem, too."""

    def __init__(self, given: Any, path: tuple[str | int, ...] = (), problems: list[Problem] | None = None) -> None:
        self.problems: list[Problem] = [] if problems is None else problems
        self._path = path
        self._given: dict[str, Any] = given if isinstance(given, dict) else {}
        self._taken: set[str] = set()
        self._is_object = isinstance(given, dict)
        if not self._is_object:
            self._wrong(path, "Must be an object")

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def one(self, name: str, check: Check[T]) -> T:
        """The value of a member that must be there."""
        self._taken.add(name)
        if name not in self._given:
            self._miss(name)
            return cast(T, None)
        return self._checked(self._given[name], check, (*self._path, name))

    def maybe(self, name: str, check: Check[T], default: D) -> T | D:
        """The value of a member that may be there, or the default."""
        return self.one(name, check) if name in self._given else default

    def each(self, name: str, check: Check[T], fewest: int = 0, most: int | None = None) -> list[T]:
        """The items of a list that must be there."""
        path = (*self._path, name)
        return [self._checked(item, check, (*path, i)) for i, item in enumerate(self._items(name, fewest, most))]

    def below(self, name: str) -> "Members":
        """The members of an object that must be there."""
        self._taken.add(name)
        if name not in self._given:
            self._miss(name)
            # With a list of its own: that the object is missing is said, and not also what would be missing in it.
            return Members({}, (*self._path, name), [])
        return Members(self._given[name], (*self._path, name), self.problems)

    def all_below(self, name: str, fewest: int = 0, most: int | None = None) -> Iterator["Members"]:
        """The members of each object in a list that must be there."""
        for index, item in enumerate(self._items(name, fewest, most)):
            yield Members(item, (*self._path, name, index), self.problems)

    def rest(self) -> dict[str, Any]:
        """The members that were not read, whatever they are."""
        return {name: value for name, value in self._given.items() if name not in self._taken}

    def refuse(self, name: str, sentence: str) -> None:
        """Adds a problem with a member, for a reason that no check knows."""
        self._taken.add(name)
        self._wrong((*self._path, name), sentence)

    def refuse_unseen(self) -> None:
        """Adds a problem for each text of the object, all the way down, that has a hidden character."""
        for found in islice(unseen_in(self._given), MOST_PROBLEMS):
            path = escaped(path_of((*self._path, *found.path)))
            self.problems.append(Problem(path, f"Has a hidden character: {found}; take it out"))

    def close(self) -> None:
        """Adds a problem for each member that was not read."""
        for name in self._given:
            if name not in self._taken:
                self._wrong((*self._path, name), "Is not a member of this object")

    def done(self) -> None:
        """Raises InvalidInput if anything was wrong, unknown members included."""
        self.close()
        self.check()

    def check(self) -> None:
        """As `done`, where unknown members are allowed."""
        if self.problems:
            raise InvalidInput(tuple(self.problems[:MOST_PROBLEMS]))

    def _items(self, name: str, fewest: int, most: int | None) -> list[Any]:
        items: list[Any] = self.one(name, _a_list) or []
        # Too long a list is not read at all: its items may be many, and what is wrong with it is said already.
        if name in self._given and isinstance(self._given[name], list):
            if len(items) < fewest:
                self.refuse(name, f"Must have at least {fewest} item{'s' if fewest > 1 else ''}")
            elif most is not None and len(items) > most:
                self.refuse(name, f"Must have at most {most} items")
                return []
        return items

    def _checked(self, value: Any, check: Check[T], path: tuple[str | int, ...]) -> T:
        try:
            return check(value)
        except ValueError as error:
            self._wrong(path, str(error), value)
            return cast(T, None)

    def _miss(self, name: str) -> None:
        if self._is_object:  # of what is no object it is said that it must be one, and not each member that it lacks
            self.problems.append(Problem(path_of((*self._path, name)), "Is required", missing=True))

    def _wrong(self, path: tuple[str | int, ...], sentence: str, got: Any = None) -> None:
        self.problems.append(Problem(path_of(path) or "body", sentence, got))


def parse(body: bytes) -> Members:
    """The members of a body. Raises MalformedRequest for what is not JSON, and InvalidInput for numbers such as 1e999,
    which are JSON and still too large."""
    try:
        return Members(decode(body))
    except msgspec.ValidationError as error:
        _out_of_range(body, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        _malformed(why_unreadable(body, error))


def parse_or_empty(body: bytes) -> Members:
    """As `parse`, where no body at all counts as an empty object."""
    return parse(body) if body else Members({})


def _malformed(reason: str) -> NoReturn:
    raise MalformedRequest(f"The body is not valid JSON: {reason}") from None


def _out_of_range(body: bytes, error: Exception) -> NoReturn:
    """Raises InvalidInput with the paths of numbers that are too large, for which the body is decoded again."""
    try:
        problems = [
            Problem(path_of(path) or "body", "Must be a finite number")
            for path in islice(_infinite(decode_infinite(body)), MOST_PROBLEMS)
        ]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        problems = []
    if not problems:
        _malformed(str(error))
    raise InvalidInput(tuple(problems)) from None


def _infinite(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, float) and math.isinf(value):
        yield path
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _infinite(member, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _infinite(item, (*path, index))


# -- checks of a member's value ---------------------------------------------------------------------


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("Must be a string")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("Must be true or false")
    return value


def an_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("Must be an object")
    return value


def object_or_null(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict | None):
        raise ValueError("Must be an object or null")
    return value


# In Python true and false are integers; in JSON they are no numbers, hence each `not isinstance(value, bool)`.


def number(value: Any) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except OverflowError:  # an integer of more than 308 digits
        pass
    raise ValueError("Must be a finite number")


def number_from(lowest: float, highest: float) -> Check[float]:
    def check(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not lowest <= value <= highest:
            raise ValueError(f"Must be a number from {lowest:g} to {highest:g}")
        return float(value)

    return check


def whole_from(lowest: int, highest: int) -> Check[int]:
    def check(value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        # 3.0 is a whole number in JSON, which does not tell it from 3.
        if not (is_whole or (isinstance(value, float) and value.is_integer())) or not lowest <= value <= highest:
            raise ValueError(f"Must be a whole number from {lowest} to {highest}")
        return int(value)

    return check


def one_of(*allowed: str) -> Check[str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"Must be {' or '.join(allowed)}")
        return value

    return check


def matching(pattern: str, sentence: str) -> Check[str]:
    """A check for strings that the pattern matches whole."""
    fits = re.compile(pattern).fullmatch

    def check(value: Any) -> str:
        if not isinstance(value, str) or not fits(value):
            raise ValueError(sentence)
        return value

    return check


def an_id(longest: int) -> Check[str]:
    """A check for ids that callers chose, which go into logs, paths and pages."""
    sentence = f"Must be a string of 1 to {longest} characters, without control characters"
    return matching(rf"[^\x00-\x1f\x7f-\x9f]{{1,{longest}}}", sentence)


ID = an_id(256)


def _a_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("Must be a list")
    return value


# -- what is wrong with a body that is not JSON -----------------------------------------------------

_half = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])").search
TRUNCATED = "Input data was truncated"
HALF = "it has one half of a surrogate pair, such as \\ud800, which is no character"


def why_unreadable(body: bytes, error: Exception) -> str:
    """Why a body cannot be decoded: msgspec's words, except where they are misleading."""
    if not body:
        return "it is empty"
    # msgspec says "truncated" also where half a surrogate pair stands near the end of a body that is whole.
    is_whole = body.rstrip().endswith((b"}", b"]", b'"'))
    return HALF if str(error) == TRUNCATED and is_whole and _half(body) else str(error)
