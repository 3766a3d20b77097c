"""A JSON body, read member by member.

A body that is not JSON is malformed. One that is, but is not what was asked for, is invalid: everything that is wrong
with it is collected by path, so that whoever wrote it hears of all of it at once. Until `done`, what was taken may
be None where it was wrong.

Why a body is not JSON that can be read, in words that are true.
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
"""The value, if it is one of these. Raises ValueError with a sentence that says what it must be."""

MOST_PROBLEMS = 20


class Members:
    """The members of one object. What is not taken is not known, and so wrong."""

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
        """A member that must be there."""
        self._taken.add(name)
        if name not in self._given:
            self._miss(name)
            return cast(T, None)
        return self._checked(self._given[name], check, (*self._path, name))

    def maybe(self, name: str, check: Check[T], default: D) -> T | D:
        """A member that may be there."""
        return self.one(name, check) if name in self._given else default

    def each(self, name: str, check: Check[T], fewest: int = 0, most: int | None = None) -> list[T]:
        """The items of a list that must be there."""
        path = (*self._path, name)
        return [self._checked(item, check, (*path, i)) for i, item in enumerate(self._items(name, fewest, most))]

    def below(self, name: str) -> "Members":
        """An object that must be there."""
        self._taken.add(name)
        if name not in self._given:
            self._miss(name)
            return Members({}, (*self._path, name), [])
        return Members(self._given[name], (*self._path, name), self.problems)

    def all_below(self, name: str, fewest: int = 0, most: int | None = None) -> Iterator["Members"]:
        """The objects of a list that must be there."""
        for index, item in enumerate(self._items(name, fewest, most)):
            yield Members(item, (*self._path, name, index), self.problems)

    def rest(self) -> dict[str, Any]:
        """What was not taken, whatever it is."""
        return {name: value for name, value in self._given.items() if name not in self._taken}

    def refuse(self, name: str, sentence: str) -> None:
        """A member that is wrong for a reason of its own."""
        self._taken.add(name)
        self._wrong((*self._path, name), sentence)

    def refuse_unseen(self) -> None:
        """No text in it may have characters that nobody sees."""
        for found in islice(unseen_in(self._given), MOST_PROBLEMS):
            path = escaped(path_of((*self._path, *found.path)))
            self.problems.append(Problem(path, f"Has a hidden character: {found}; take it out"))

    def close(self) -> None:
        """Nothing else may be there."""
        for name in self._given:
            if name not in self._taken:
                self._wrong((*self._path, name), "Is not a member of this object")

    def done(self) -> None:
        """Raises InvalidInput if anything was wrong."""
        self.close()
        self.check()

    def check(self) -> None:
        """The same, where other members are allowed."""
        if self.problems:
            raise InvalidInput(tuple(self.problems[:MOST_PROBLEMS]))

    def _items(self, name: str, fewest: int, most: int | None) -> list[Any]:
        items: list[Any] = self.one(name, _a_list) or []
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
        if self._is_object:
            self.problems.append(Problem(path_of((*self._path, name)), "Is required", missing=True))

    def _wrong(self, path: tuple[str | int, ...], sentence: str, got: Any = None) -> None:
        self.problems.append(Problem(path_of(path) or "body", sentence, got))


def parse(body: bytes) -> Members:
    """Raises MalformedRequest for what is not JSON, and InvalidInput for numbers that nothing can hold."""
    try:
        return Members(decode(body))
    except msgspec.ValidationError as error:
        _out_of_range(body, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        _malformed(why_unreadable(body, error))


def parse_or_empty(body: bytes) -> Members:
    """The same, but no body at all is an empty object."""
    return parse(body) if body else Members({})


def _malformed(reason: str) -> NoReturn:
    raise MalformedRequest(f"The body is not valid JSON: {reason}") from None


def _out_of_range(body: bytes, error: Exception) -> NoReturn:
    """A number such as 1e999 is JSON, and still not a number."""
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


# -- what a member must be --------------------------------------------------------------------------


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


def number(value: Any) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    except OverflowError:
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
    """A string that the pattern matches whole."""
    fits = re.compile(pattern).fullmatch

    def check(value: Any) -> str:
        if not isinstance(value, str) or not fits(value):
            raise ValueError(sentence)
        return value

    return check


def an_id(longest: int) -> Check[str]:
    sentence = f"Must be a string of 1 to {longest} characters, without control characters"
    return matching(rf"[^\x00-\x1f\x7f-\x9f]{{1,{longest}}}", sentence)


ID = an_id(256)


def _a_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("Must be a list")
    return value


_half = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])").search
TRUNCATED = "Input data was truncated"
HALF = "it has one half of a surrogate pair, such as \\ud800, which is no character"


def why_unreadable(body: bytes, error: Exception) -> str:
    """The decoder also says that a body was cut off where one half of a pair stands near its end."""
    if not body:
        return "it is empty"
    is_whole = body.rstrip().endswith((b"}", b"]", b'"'))
    return HALF if str(error) == TRUNCATED and is_whole and _half(body) else str(error)
