"""What an option's value may be. Each of these reads it, and refuses another with what it must be and what it was."""

import math
import re
from collections.abc import Callable

from ..model.call import CALL_ID_FORM, is_call_id
from ..model.errors import SetupError
from ..model.lifecycle import State


def whole(option: str, lowest: int, highest: int) -> Callable[[str], int]:
    def read(given: str) -> int:
        word = str(given)
        if re.fullmatch("-?[0-9]{1,18}", word) and lowest <= int(word) <= highest:
            return int(word)
        raise SetupError(f"{option} must be a whole number from {lowest} to {highest}, got {word!r}")

    return read


def seconds(option: str) -> Callable[[str], float]:
    def read(given: str) -> float:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if 0 <= value < math.inf:
            return value
        raise SetupError(f"{option} must be a number of seconds, 0 or more, got {str(given)!r}")

    return read


def state(given: str) -> State:
    try:
        return State(str(given).upper())
    except ValueError:
        raise SetupError(f"--state must be one of {', '.join(State).lower()}, got {str(given)!r}") from None


def call_id(given: str) -> str:
    """Of a call that is looked for."""
    if is_call_id(given):
        return given
    raise SetupError(f"CALL_ID must have {CALL_ID_FORM}, got {given[:80]!r}")


def named(words: list[str] | None, form: str) -> dict[str, str]:
    """NAME=VALUE, each name once: of two values nobody knows which was meant."""
    found: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SetupError(f"{word!r} is not {form}")
        if name in found:
            raise SetupError(f"{name} is given twice; give it once")
        found[name] = value
    return found


def filled(words: list[str] | None, form: str, option: str) -> dict[str, str]:
    """The same, and none is empty: whose variable was not set has no value to pass."""
    found = named(words, form)
    for name, value in found.items():
        if not value:
            raise SetupError(f"{option} {name}= has no value; is the variable set that it should come from?")
    return found
