"""Long walks through the machine at random: hypothesis finds the shortest way to a failure, but goes the same few ways
often; here every rule comes as often as it is wanted.

A walk that breaks a promise is taken again without one of its steps after another, as long as it breaks the same: what
is left is what it takes.
"""

import time
from collections.abc import Callable
from random import Random

from .machine import MOVES, Machine, Step
from .oracle import BrokenPromise

SHORTEN_S = 60.0
"""So long a walk is shortened."""


def wander(new_machine: Callable[[], Machine], number: int, steps: int) -> None:
    """Raises BrokenPromise, with the shortest walk that was found to it."""
    random = Random(number)
    first: Step = ("set_up", {"audit": random.choice(["on", "on", "strict"]), "trusts": random.random() < 0.5})
    walk = [first, *(_step(random) for _ in range(steps))]
    try:
        _take(new_machine(), walk)
    except BrokenPromise as broken:
        shown = "\n".join(f"  {name}({_values(values)})" for name, values in shortened(new_machine, walk, broken))
        broken.add_note(f"seed {number}, {steps} steps; it takes no more than:\n{shown}")
        raise


def shortened(new_machine: Callable[[], Machine], walk: list[Step], broken: BrokenPromise) -> list[Step]:
    """Without what is not needed to break the same promises."""
    until, size = time.monotonic() + SHORTEN_S, len(walk) // 2
    while size:
        at = 1
        while at < len(walk) and time.monotonic() < until:
            without = walk[:at] + walk[at + size :]
            if _breaks(new_machine, without, broken):
                walk = without
            else:
                at += size
        size //= 2
    return walk


def _step(random: Random) -> Step:
    (name,) = random.choices(list(MOVES), [often for often, _ in MOVES.values()])
    return name, {value: random.choice(choices) for value, choices in MOVES[name][1].items()}


def _take(machine: Machine, walk: list[Step]) -> None:
    """To its end, which has its own look."""
    try:
        for step in walk:
            machine.take(step)
    except BaseException:
        machine.is_broken = True
        raise
    finally:
        machine.teardown()


def _breaks(new_machine: Callable[[], Machine], walk: list[Step], broken: BrokenPromise) -> bool:
    try:
        _take(new_machine(), walk)
    except BrokenPromise as again:
        return bool(again.promises & broken.promises)
    return False


def _values(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
