"""The values of options and arguments. Each function reads one, or raises SetupError, which says what the value must be
and what it was."""

import math
import re
from collections.abc import Callable

from ...model.call import CALL_ID_FORM, is_call_id
from ...model.errors import SetupError
from ...model.lifecycle import State


def whole(option: str, lowest: int, highest: int) -> Callable[[str], int]:
    """Reads a whole number within limits."""

    def read(given: str) -> int:
        word = str(given)
        if re.fullmatch("-?[0-9]{1,18}", word) and lowest <= int(word) <= highest:
            return int(word)
        raise SetupError(f"{option} must be a whole number from {lowest} to {highest}, got {word!r}")

    return read


def seconds(option: str) -> Callable[[str], float]:
    """Reads a number of seconds, 0 or more."""

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
    """A call's state, in whatever case."""
    try:
        return State(str(given).upper())
    except ValueError:
        raise SetupError(f"--state must be one of {', '.join(State).lower()}, got {str(given)!r}") from None


def call_id(given: str) -> str:
    """The id of a call that is looked for."""
    if is_call_id(given):
        return given
    raise SetupError(f"CALL_ID must have {CALL_ID_FORM}, got {given[:80]!r}")


def named(words: list[str] | None, form: str) -> dict[str, str]:
    """Words of the form NAME=VALUE, each name once: of two values nobody knows which was meant."""
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
    """The same as `named`, and no value is empty: a variable of the shell that is not set would be passed on so."""
    found = named(words, form)
    for name, value in found.items():
        if not value:
            raise SetupError(f"{option} {name}= has no value; is the variable set that it should come from?")
    return found


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 36500 * _UNITS["d"]
_duration = re.compile(r"([0-9]{1,10})([smhd])").fullmatch


def seconds_in(given: str, option: str) -> float:
    """A length of time as people write it, such as 30d, 12h, 10m or 45s: a second at least, and at most a hundred
    years."""
    found = _duration(given)
    if found is None:
        raise SetupError(f"{option} must be a time such as 30d, 12h, 10m or 45s, got {given!r}")
    seconds = int(found[1]) * _UNITS[found[2]]
    if not 0 < seconds <= _LONGEST_S:
        raise SetupError(f"{option} must be at least 1s and at most 36500d, got {given!r}")
    return seconds


def checked(given: str, check: Callable[[object], str], option: str) -> str:
    """The value, if `check` takes it. Raises SetupError."""
    try:
        return check(given)
    except ValueError as error:
        sentence = str(error)
        raise SetupError(f"{option} {sentence[0].lower()}{sentence[1:]}, got {given!r}") from None
