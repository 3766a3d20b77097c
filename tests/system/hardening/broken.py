"""Tools whose results no caller should get."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from toolyard import Toolkit

SECRET = "hunter2-is-the-password"
kit = Toolkit("Broken", version="1.0.0", description="For tests.")


@dataclass
class Point:
    x: float


class Box(BaseModel):
    anything: Any


class Unspeakable(Exception):
    """Cannot even be written down."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


class Leaving(Exception):
    """Ends the process of whoever writes it down."""

    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class LeavingGenerator(GeneratorExit):
    """What would close a coroutine, and cannot be written down either."""

    __str__ = __repr__ = Leaving.__str__


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def in_itself() -> list[Any]:
    made: list[Any] = []
    made.append({"again": made})
    return made


def raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


Case = tuple[Any, Callable[[], Any], str]

RESULTS: dict[str, Case] = {
    "inf": (float, lambda: math.inf, "the result"),
    "minus_inf": (float, lambda: -math.inf, "the result"),
    "nan": (float, lambda: math.nan, "the result"),
    "too_large": (float, lambda: 1e308 + 1e308, "the result"),
    "optional_nan": (float | None, lambda: math.nan, "the result"),
    "nan_in_a_list": (list[float], lambda: [1.0, math.nan], "[1]"),
    "inf_in_a_dataclass": (Point, lambda: Point(math.inf), "x"),
    "any_nan": (Any, lambda: math.nan, "the result"),
    "deep_nan": (Any, lambda: {"a": [None, {"b": (1, math.nan)}]}, "a[1].b[1]"),
    "inf_beside_null": (Any, lambda: [None, math.inf], "[1]"),
    "surrogate": (str, lambda: "\ud800", "surrogates not allowed"),
    "surrogate_in_a_list": (list[str], lambda: ["a", "\udfff"], "surrogates not allowed"),
    "surrogate_in_a_key": (Any, lambda: {"\ud800": 1}, "surrogates not allowed"),
    "bytes_for_text": (str, lambda: b"text", "bytes"),
    "bytes_beyond_utf8": (Any, lambda: b"\xff", "utf-8"),
    "set_for_a_number": (int, lambda: {1, 2}, "set"),
    "text_for_a_number": (int, lambda: "1", "the result: Must be a whole number"),
    "true_for_a_number": (float, lambda: True, "the result: Must be a number"),
    "number_for_nothing": (None, lambda: 1, "the result: Must be null"),
    "text_in_a_table": (dict[str, list[int]], lambda: {"a": [1, "x"]}, "a[1]: Must be a whole number"),
    "none_for_an_object": (Point, lambda: None, "the result: Must be an object"),
    "in_itself": (Any, in_itself, "Circular reference"),
    "in_itself_as_a_list": (list[Any], in_itself, "Circular reference"),
    "nested_without_end": (Any, lambda: nested(5000), "depth"),
    "a_number_too_long": (int, lambda: 10**5000, "4300 digits"),
    "a_number_too_long_inside": (Any, lambda: [10**5000], "4300 digits"),
    "an_object_of_python": (Any, lambda: object(), "object"),
    "an_exception": (int, raising(ValueError(SECRET)), SECRET),
    "a_system_exit": (int, raising(SystemExit(SECRET)), SECRET),
    "a_generator_exit": (int, raising(GeneratorExit(SECRET)), SECRET),
    "a_stop_iteration": (int, lambda: next(iter(())), "StopIteration"),
    "a_memory_error": (int, raising(MemoryError(SECRET)), SECRET),
    "a_group": (int, raising(ExceptionGroup(SECRET, [ValueError(SECRET)])), SECRET),
    "nan_in_a_model": (Box, lambda: Box(anything=[math.nan]), "anything[0]"),
    "nan_in_an_open_object": (dict[str, Any], lambda: {"a": {"b": math.nan}}, "a.b"),
    "unspeakable": (int, raising(Unspeakable()), "raised"),
    "leaving": (int, raising(Leaving()), "raised"),
    "leaving_generator": (int, raising(LeavingGenerator()), "raised"),
}
"""By name: what a tool says it returns, what it does, and what the log says of it."""


def add(name: str, returns: Any, make: Callable[[], Any]) -> None:
    """Each as a tool on the loop, in a thread, and waiting."""

    def plain() -> Any:
        return make()

    async def waiting() -> Any:
        return make()

    for function, runs in ((plain, "thread"), (waiting, "inline")):
        function.__name__ = f"{name}_{runs}"
        function.__annotations__ = {"return": returns}
        kit.tool(description="Breaks.", runs=runs)(function)  # type: ignore[call-overload]


for name, (returns, make, _) in RESULTS.items():
    add(name, returns, make)


@kit.tool
async def fine() -> dict[str, Any]:
    """Returns the largest and the smallest."""
    return {"numbers": [1.7976931348623157e308, 5e-324, 2**64, -(2**63), 10**300], "text": "null 🙂\x00", "none": None}
